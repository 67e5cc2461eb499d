"""Conversations of sixty messages in three languages, with facts that a summary must not lose."""

FILLER = {
    "vi": (
        "Dạ em cảm ơn bác sĩ nhiều ạ.",
        "Không có gì, anh cứ hỏi thêm nếu còn thắc mắc nhé.",
        "Vâng, để tôi xem lại rồi trả lời sau.",
        "Thường thì răng ê buốt là do men răng bị mòn, anh nên dùng bàn chải mềm.",
        "Tôi hiểu rồi, vậy buổi tối tôi sẽ chải răng kỹ hơn.",
        "Đúng rồi, chải nhẹ nhàng theo vòng tròn sẽ tốt hơn cho nướu.",
    ),
    "en": (
        "Thanks, that helps.",
        "You're welcome. Feel free to ask anything else.",
        "Let me think about it and get back to you.",
        "Sensitive teeth often come from worn enamel, so a soft brush is a good idea.",
        "I see, then I will brush more gently in the evening.",
        "Small circles along the gum line work best.",
    ),
    "zh": (
        "好的，谢谢医生。",
        "不客气，有问题可以随时再问。",
        "我先考虑一下，晚点再回复你。",
        "牙齿敏感大多是因为牙釉质磨损，建议使用软毛牙刷。",
        "明白了，晚上我会刷得更轻一些。",
        "沿着牙龈画小圈刷效果最好。",
    ),
}
FACTS = {
    "vi": {
        2: "Tên tôi là Nguyễn Thị Minh Châu, năm nay 34 tuổi.",
        9: "Phòng khám đặt lịch cho chị vào 14:30 ngày 12/05/2026 tại cơ sở Lê Lợi.",
        17: "Chi phí trám răng là 1.250.000 đồng, chị đã đồng ý.",
        26: "Tôi bị dị ứng penicillin từ nhỏ.",
        38: "Số điện thoại của tôi là 0905 123 456.",
        47: "Bác sĩ Trần Quốc Bảo sẽ nhổ răng khôn cho chị vào thứ Sáu.",
    },
    "en": {
        2: "My name is Margaret Holloway and I am 34 years old.",
        9: "The clinic booked you for 2:30 pm on 12 May 2026 at the Harbour Street branch.",
        17: "The filling costs $185.50, and you agreed to it.",
        26: "I have been allergic to penicillin since childhood.",
        38: "You can reach me at margaret.holloway@example.org.",
        47: "Dr. Okonkwo will take out the wisdom tooth on Friday.",
    },
    "zh": {
        2: "我叫欧阳思雨，今年34岁。",
        9: "诊所为您预约了2026年5月12日下午2点半，在人民路分院。",
        17: "补牙的费用是850元，您已经同意了。",
        26: "我从小对青霉素过敏。",
        38: "我的电话是138-0013-8000。",
        47: "陈建国医生会在星期五帮您拔智齿。",
    },
}
PLANTED = {
    "vi": ("Nguyễn Thị Minh Châu", "12/05/2026", "1.250.000 đồng", "penicillin", "0905 123 456", "Trần Quốc Bảo"),
    "en": ("Margaret Holloway", "12 May 2026", "$185.50", "penicillin", "margaret.holloway@example.org", "Okonkwo"),
    "zh": ("欧阳思雨", "2026年5月12日", "850元", "青霉素", "138-0013-8000", "陈建国"),
}
"""What the summary holds once the newest messages are past the last of these."""


def chat(language: str, length: int = 60) -> list[tuple[str, str]]:
    filler = FILLER[language]
    return [
        ("user" if place % 2 == 0 else "assistant", FACTS[language].get(place, filler[place % len(filler)]))
        for place in range(length)
    ]

"""Probe sentences with a question to each, in three languages. Their embeddings show where a model puts each language,
and the cosines it gives to related and to unrelated texts."""

PROBES: dict[str, list[tuple[str, str]]] = {
    "en": [
        (
            "To reset the router, hold the small button on the back for ten seconds until the light turns green.",
            "How do I reset the router?",
        ),
        (
            "The function returns an empty list when the file does not exist, so the caller checks the length first.",
            "What does the function return when the file is missing?",
        ),
        (
            "The contract ends on the last day of March unless both sides agree in writing to extend it by a year.",
            "When does the contract end?",
        ),
        (
            "Plants that grow in the shade often have broader, darker leaves than the same kind standing in full sun.",
            "Which leaves do plants have in the shade?",
        ),
        (
            "The train to the coast leaves at half past six; tickets can be bought from the machine on platform two.",
            "where can I buy train tickets",
        ),
        (
            "After the update the service refused connections because the certificate had expired during the night.",
            "certificate expired connection refused",
        ),
        (
            "The king died without an heir, and for eleven years two cousins fought over the crown.",
            "Who fought over the crown?",
        ),
        (
            "Regular sleep, little salt and a walk every evening brought her blood pressure down within a month.",
            "How can blood pressure be lowered?",
        ),
        (
            "The company sold fewer phones this quarter, but earned more from repairs and subscriptions.",
            "What did the company earn more from?",
        ),
        (
            "The recipe needs two eggs, a cup of sugar and flour, baked for forty minutes.",
            "How long does the cake have to bake?",
        ),
        (
            "Students who miss the exam may sit it again in August if they send a doctor's note.",
            "What should I do if I missed the exam?",
        ),
        (
            "The bridge was closed to lorries after engineers found cracks in two of its pillars.",
            "why is the bridge closed",
        ),
        (
            "Set the variable in the configuration file, then restart the server so that it takes effect.",
            "setting not applied after change",
        ),
        ("The museum shows paintings from the seventeenth century and is free on Sundays.", "When is the museum free?"),
        ("Bees tell each other where flowers are by dancing in the dark of the hive.", "how do bees communicate"),
    ],
    "vi": [
        (
            "Để đặt lại bộ định tuyến, hãy giữ nút nhỏ phía sau trong mười giây đến khi đèn chuyển sang màu xanh.",
            "Làm thế nào để đặt lại bộ định tuyến?",
        ),
        (
            "Hàm trả về một danh sách rỗng khi tệp không tồn tại, vì vậy nơi gọi phải kiểm tra độ dài trước.",
            "Hàm trả về gì khi không có tệp?",
        ),
        (
            "Hợp đồng kết thúc vào ngày cuối cùng của tháng ba, trừ khi hai bên đồng ý bằng văn bản gia hạn một năm.",
            "Hợp đồng kết thúc khi nào?",
        ),
        (
            "Cây mọc trong bóng râm thường có lá rộng và sẫm màu hơn cùng loài đứng ngoài nắng.",
            "Cây trong bóng râm có lá như thế nào?",
        ),
        (
            "Chuyến tàu ra bờ biển khởi hành lúc sáu giờ rưỡi; vé có thể mua ở máy trên sân ga số hai.",
            "mua vé tàu ở đâu",
        ),
        (
            "Sau khi cập nhật, dịch vụ từ chối kết nối vì chứng chỉ đã hết hạn trong đêm.",
            "chứng chỉ hết hạn bị từ chối kết nối",
        ),
        (
            "Nhà vua qua đời mà không có người kế vị, và suốt mười một năm hai người anh em họ tranh giành ngai vàng.",
            "Ai đã tranh giành ngai vàng?",
        ),
        (
            "Ngủ đều đặn, ăn ít muối và đi bộ mỗi tối đã giúp huyết áp của cô giảm xuống trong vòng một tháng.",
            "Làm sao để hạ huyết áp?",
        ),
        (
            "Công ty bán được ít điện thoại hơn trong quý này nhưng kiếm được nhiều hơn từ sửa chữa và thuê bao.",
            "Công ty kiếm được nhiều hơn từ đâu?",
        ),
        (
            "Công thức cần hai quả trứng, một chén đường và bột mì, nướng trong bốn mươi phút.",
            "Bánh phải nướng bao lâu?",
        ),
        (
            "Sinh viên bỏ lỡ kỳ thi có thể thi lại vào tháng tám nếu gửi giấy của bác sĩ.",
            "Tôi phải làm gì nếu bỏ lỡ kỳ thi?",
        ),
        ("Cây cầu bị cấm xe tải sau khi các kỹ sư phát hiện vết nứt ở hai trụ cầu.", "vì sao cây cầu bị đóng"),
        (
            "Hãy đặt biến trong tệp cấu hình rồi khởi động lại máy chủ để nó có hiệu lực.",
            "đã đổi cài đặt mà không có tác dụng",
        ),
        ("Bảo tàng trưng bày tranh từ thế kỷ mười bảy và miễn phí vào chủ nhật.", "Khi nào bảo tàng miễn phí?"),
        ("Ong báo cho nhau biết hoa ở đâu bằng cách nhảy múa trong bóng tối của tổ.", "ong giao tiếp bằng cách nào"),
    ],
    "zh": [
        ("要重置路由器，请按住背面的小按钮十秒钟，等指示灯变成绿色。", "怎么重置路由器？"),
        ("当文件不存在时，该函数返回空列表，因此调用者必须先检查长度。", "文件不存在时函数返回什么？"),
        ("除非双方书面同意再延长一年，否则合同将于三月最后一天到期。", "合同什么时候到期？"),
        ("生长在阴凉处的植物，叶子往往比生长在阳光下的同类更宽、颜色更深。", "阴凉处的植物叶子是什么样的？"),
        ("开往海边的火车六点半出发，车票可以在二号站台的机器上购买。", "在哪里买火车票"),
        ("更新之后，由于证书在夜间过期，服务拒绝了连接。", "证书过期 连接被拒绝"),
        ("国王去世时没有继承人，两位表亲为王位争斗了十一年。", "谁在争夺王位？"),
        ("规律的睡眠、少盐的饮食和每晚散步，让她的血压在一个月内降了下来。", "怎样降低血压？"),
        ("公司这个季度卖出的手机减少了，但维修和订阅的收入增加了。", "公司从哪里赚得更多？"),
        ("这个食谱需要两个鸡蛋、一杯糖和面粉，烤四十分钟。", "蛋糕要烤多久？"),
        ("错过考试的学生如果提交医生证明，可以在八月补考。", "错过考试怎么办？"),
        ("工程师在两根桥墩上发现裂缝后，大桥禁止卡车通行。", "大桥为什么封闭"),
        ("在配置文件中设置该变量，然后重启服务器使其生效。", "修改设置后没有生效"),
        ("博物馆展出十七世纪的绘画，星期天免费开放。", "博物馆什么时候免费？"),
        ("蜜蜂在黑暗的蜂巢里用舞蹈告诉同伴花在哪里。", "蜜蜂怎样交流"),
    ],
}
"""(passage, question) by language. The same line has the same meaning in every language."""

NONSENSE = (
    "gsonack kfnfwr",
    "grzco pioaqijkt",
    "fuhpxeerh oegtpjm iwgln",
    "qhzoohpt mnrembp",
    "bjek dmrtdfz jnvzphain amzaai",
    "poejehi xxuzwlmim zimcebv",
    "oduesv xspsyk",
    "xybeih",
    "gha xxdijke dbj",
    "vnhhqen untetib",
    "glfluuoz ddpymyl kwgsb qppu",
    "idxjrrmf xlv vsl",
    "giếnh nghừch",
    "quậch khờt quậnh",
    "khẫnh nghằt trẫt quờch",
    "khỡt",
    "nghắnh quữp trớnh quầch",
    "nghốp trốp trỡnh",
    "亱稒酧衶慵 椮惱莧鳂婯餢",
    "禼哮倏偪脒 饕鞯塐",
    "裄縎絟踓策氈 檏獼雤泿 栦鬩詒圵 濺黸驞卥燯",
    "蜤沌礪",
    "摼轆畚浙 蕲躀癵掗瀠 軛蹰筒霩钜",
    "珶騁锶鞄逍 黉挂焕坍 蚘崾贓覐",
)
"""Words of no language: the similarity that a model gives to these, it gives to anything. In most models a short text
is close to everything, and a long one to little, so each passage is compared with its own similarity to these."""

"""Stop words: function words and question words, which say how something is asked, not what about.

They still count a little, so that a query made of nothing else is answered. A Vietnamese word typed with marks is
compared exactly (`của` is a stop word, `cửa`, a door, is not). One typed without marks is a stop word only in a query
that looks Vietnamese, because `ai`, `do`, `ma` or `the` are words of other languages too.
"""

ENGLISH = frozenset(
    "a about after all also although am an and any are as at be because been before being between but by can cannot "
    "could did do does doing done during each either else ever every few for from had has have having he her here hers "
    "him his how however i if in into is it its just many may me might more most much must my no nor not of off on "
    "once one only or other others our out over own per please shall she should so some such than that the their "
    "them then there these they this those through to too until upon us very via was we were what whatever when "
    "whenever where whether which while who whom whose why will with within without would yet you your "
    "dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt havent hasnt hadnt im ive id ill "
    "youre youve youll hes shes theyre theyve weve thats whats whos hows wheres theres lets".split()
)

VIETNAMESE = frozenset(
    "là và của cho khi thì mà ở để bị được trong những các một với không như này đó đến từ ra vào ai gì nào đâu sao "
    "bao nhiêu mấy thế tại vì do bởi nên cũng đã đang sẽ đều rất hay hoặc nếu nhưng còn chỉ lại có phải vậy à ạ hả "
    "nhé ư chưa tôi bạn mình nó họ ta chúng về theo trên dưới qua cùng bằng kia ấy cái việc sự hãy xin".split()
)
"""In exact form, with marks."""

UNMARKED = frozenset(
    "la va cua cho khi thi ma o de bi duoc trong nhung cac mot voi khong nhu nay do den tu ra vao ai gi nao dau sao "
    "bao nhieu may the tai vi boi nen cung da dang se deu rat hay hoac neu con chi lai co phai vay chua toi ban minh "
    "no ho ta chung ve theo tren duoi qua bang kia ay cai viec su hay xin".split()
)
"""The same typed without marks."""

HAN = frozenset(
    "的了是在和有我你您他她它们不没这那此其之于以而被把将从到对由就也都还又很吗呢吧啊呀么什谁哪几多少为怎样如何何时个些"
    "与或及并但且则者所得地着过会能可要请问若因该每各某"
)
"""Single characters. Each alone says little, and a pair of them (什么, 为什, 多少, 如何) no more."""
HAN_PAIRS = frozenset("时候 请问 哪里 哪儿 哪年 几年 何年 原因 名称 叫做 称为 什麼 甚麼 為什 怎麼 誰是 哪個".split())

KANA = frozenset("のはがをにへともやで")

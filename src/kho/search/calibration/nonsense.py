"""Words of no language: what an embedding model gives to these, it gives to anything. A short text is near to
everything in most models, and a long one to little; each passage is measured against its own nearness to these."""

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

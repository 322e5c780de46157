"""What real vocabularies make of texts of many kinds: the fewest tokens and the most.

Measured with those of cl100k, o200k, p50k (OpenAI), Llama 3 and 4, Qwen, DeepSeek V3, Mistral v1 and
Tekken, Gemma 3, Claude 2 and SmolLM2, without what a chat template adds.
"""

SAMPLES: dict[str, tuple[str, int, int]] = {
    "English": (
        "The tide comes in twice a day, because the moon pulls at the"
        " sea and the earth turns under it. Sailors who know the tabl"
        "es wait for high water before they leave the harbour.",
        38,
        40,
    ),
    "German": (
        "Die Flut kommt zweimal am Tag, weil der Mond am Meer zieht u"
        "nd sich die Erde darunter weiterdreht. Wer die Gezeitentafel"
        "n kennt, wartet mit dem Auslaufen auf das Hochwasser.",
        42,
        68,
    ),
    "Polish": (
        "Przypływ przychodzi dwa razy dziennie, ponieważ księżyc przy"
        "ciąga morze, a ziemia obraca się pod nim. Żeglarze czekają n"
        "a wysoką wodę, zanim wypłyną z portu.",
        49,
        90,
    ),
    "Vietnamese": (
        "Thủy triều lên hai lần mỗi ngày vì mặt trăng hút nước biển v"
        "à trái đất quay bên dưới. Người đi biển biết bảng thủy triều"
        " thường chờ nước lớn rồi mới rời cảng.",
        37,
        158,
    ),
    "Russian": (
        "Прилив приходит дважды в день, потому что луна притягивает м"
        "оре, а земля вращается под ним. Моряки, которые знают таблиц"
        "ы, ждут полной воды, прежде чем выйти из гавани.",
        42,
        181,
    ),
    "Greek": (
        "Η παλίρροια έρχεται δύο φορές την ημέρα, γιατί το φεγγάρι τρ"
        "αβάει τη θάλασσα και η γη γυρίζει από κάτω. Οι ναυτικοί περι"
        "μένουν τα ψηλά νερά πριν φύγουν.",
        55,
        173,
    ),
    "Hebrew": (
        "הגאות באה פעמיים ביום, כי הירח מושך את הים והארץ מסתובבת תחת"
        "יו. המלחים שמכירים את הטבלאות מחכים למים גבוהים לפני שהם עוז"
        "בים את הנמל.",
        52,
        150,
    ),
    "Arabic": (
        "يأتي المد مرتين في اليوم لأن القمر يجذب البحر والأرض تدور تح"
        "ته. والبحارة الذين يعرفون الجداول ينتظرون ارتفاع الماء قبل أ"
        "ن يغادروا الميناء.",
        37,
        133,
    ),
    "Hindi": (
        "ज्वार दिन में दो बार आता है, क्योंकि चाँद समुद्र को खींचता ह"
        "ै और धरती उसके नीचे घूमती है। नाविक बंदरगाह छोड़ने से पहले ऊ"
        "ँचे पानी की प्रतीक्षा करते हैं।",
        51,
        234,
    ),
    "Thai": (
        "น้ำขึ้นวันละสองครั้ง เพราะดวงจันทร์ดึงน้ำทะเลและโลกหมุนอยู่ข"
        "้างใต้ ชาวเรือที่รู้ตารางน้ำจะรอให้น้ำขึ้นสูงก่อนออกจากท่าเร"
        "ือ",
        42,
        242,
    ),
    "Chinese": (
        "潮水每天涨两次，因为月亮吸引着海水，而地球在下面转动。熟悉潮汐表的水手会等到水位最高的时候才离开港口，这样船就不会搁浅在"
        "沙滩上。",
        42,
        142,
    ),
    "Japanese": (
        "潮は一日に二度満ちます。月が海を引き、その下で地球が回っているからです。潮の表を知っている船乗りは、港を出る前に満潮を待"
        "ちます。",
        44,
        107,
    ),
    "Korean": (
        "밀물은 하루에 두 번 들어옵니다. 달이 바다를 끌어당기고 그 아래에서 지구가 돌기 때문입니다. 물때를 아는 "
        "뱃사람은 만조를 기다렸다가 항구를 떠납니다.",
        48,
        175,
    ),
    "Python": (
        "def tides(day: int, *, moon: float = 0.5) -> list[float]:\n  "
        "  heights = [math.sin(hour / 6.2 + moon) for hour in range(2"
        "4)]\n    return [round(height, 3) for height in heights if he"
        "ight > 0]\n",
        61,
        73,
    ),
    "minified": (
        "function t(e,n){var r=e.length,i=0;if(!n)return[];for(;i<r;i"
        "++)if(e[i].h>n)return e.slice(i);return r?[e[r-1]]:null}!fun"
        "ction(){window.t=t,document.onload=function(e){t(e.d,.5)}}()"
        ";",
        65,
        96,
    ),
    "JSON": (
        '{"id":7,"name":"Harbour","tides":[{"at":"04:12","m":3.71},{"'
        'at":"10:25","m":0.94},{"at":"16:38","m":3.86},{"at":"22:51",'
        '"m":0.88}],"open":true,"depth":null}',
        70,
        87,
    ),
    "HTML": (
        '<table class="tides"><tr><th>Time</th><th>Height</th></tr><t'
        "r><td>04:12</td><td>3.71&nbsp;m</td></tr><tr><td>10:25</td><"
        "td>0.94&nbsp;m</td></tr></table><p>All times are <em>local</"
        "em>.</p>",
        81,
        97,
    ),
    "tags": (  # each is one token for Gemma
        "<table>\n<tr><th>Day</th><th>Tide</th></tr>\n<tr><td>1</td><td>high</td></tr>\n"
        "<tr><td>2</td><td>low</td></tr>\n<tr><td>3</td><td></td></tr>\n</table>\n"
        "<ul>\n<li>Salt</li>\n<li>Wool</li>\n</ul>\n",
        52,
        105,
    ),
    "marks of a chat": (  # each is one token for whoever has them in its template
        "<|im_start|>user\nHigh?<|im_end|>\n<|im_start|>assistant\nLow.<|im_end|>\n" * 3,
        42,
        114,
    ),
    "dialogue": (  # "don't" is one token for o200k
        "\"I don't think it's high yet,\" she said. \"It isn't, and we can't wait.\" \"You're "
        "right, they've gone. That's what I'd do, so let's go: he won't mind, and she'll see "
        "we're not late.\"\n",
        46,
        72,
    ),
    "CSV": (
        "1,4.12,3.71,-0.02\n2,10.25,0.94,-0.11\n3,16.38,3.86,0.07\n4,22."
        "51,0.88,0.13\n5,5.04,3.62,-0.09\n6,11.17,1.03,-0.15\n7,17.30,3."
        "77,0.02\n8,23.43,0.97,0.19\n",
        112,
        143,
    ),
    "log": (
        "2026-03-08T04:12:07.113Z INFO  [worker-3] request id=9f3c01a"
        "b took 118 ms\n2026-03-08T04:12:07.460Z WARN  [worker-1] requ"
        "est id=77d0e2c4 took 902 ms\n",
        72,
        99,
    ),
    "hexadecimal": (
        "9f3c01ab77d0e2c4b5186aa0f2d93e71c04b8d5520ae6f7713c99e02d4b8"
        "6a35f01e7c8d29b4430aa65ff81270c3e9d4b8602c517fae93d18b04c6e2"
        "5f7a9013d8e6b24c57f01a9bc3d4e8f27165",
        110,
        150,
    ),
    "Base64": (
        "VGhlIHRpZGUgY29tZXMgaW4gdHdpY2UgYSBkYXksIGJlY2F1c2UgdGhlIG1v"
        "b24gcHVsbHMgYXQgdGhlIHNlYSBhbmQgdGhlIGVhcnRoIHR1cm5zIHVuZGVy"
        "IGl0LiBTYWlsb3JzIHdobyBrbm93IHRoZSB0YWJsZXM=",
        104,
        132,
    ),
    "digits": (
        "314159265358979323846264338327950288419716939937510582097494"
        "459230781640628620899862803482534211706798214808651328230664"
        "709384460955058223172535940812848",
        51,
        154,
    ),
    "emoji": (
        "🌊🌙⛵🌍🐚🦀⚓🚢🐟🌅🏖🧭🪝🐙🦑🌬⛈🌡🗺🔭🛟🐬🦈🌀",
        27,
        92,
    ),
    "a line": ("-" * 200, 3, 14),
    "blanks": ("tide" + " " * 200 + "table", 5, 15),
    "one letter": ("a" * 200, 13, 100),
    "one word": ("tide " * 40, 41, 42),
}

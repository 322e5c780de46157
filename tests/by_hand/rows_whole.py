"""A thousand rows labelled on the embedded model, killed three times, and looked at: is all of it there, once?

    python -m tests.by_hand.rows_whole [--rows N] [--table FILE] [--host URL]

The table is made here: sentences of a hundred languages, with quotes, line ends, emoji, and what a
spreadsheet would run. It needs the embedded engine and its small model.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.process import MAIN, ROOT

GREETINGS = """
Afrikaans:Goeie môre, hoe gaan dit?|Albanian:Mirëmëngjes, si jeni?|Amharic:እንደምን አደሩ?|Arabic:صباح الخير، كيف حالك؟
Armenian:Բարի լույս, ինչպե՞ս եք|Assamese:সুপ্ৰভাত, আপোনাৰ কেনে?|Aymara:Aski urukipan|Azerbaijani:Sabahınız xeyir
Basque:Egun on, zer moduz?|Belarusian:Добрай раніцы, як справы?|Bengali:সুপ্রভাত, কেমন আছেন?|Bosnian:Dobro jutro, kako ste?
Breton:Demat, mont a ra?|Bulgarian:Добро утро, как сте?|Burmese:မင်္ဂလာပါ|Catalan:Bon dia, com esteu?
Cebuano:Maayong buntag|Chichewa:Mwadzuka bwanji?|Chinese:早上好，你好吗？|Corsican:Bonghjornu, cumu state?
Croatian:Dobro jutro, kako ste?|Czech:Dobré ráno, jak se máte?|Danish:Godmorgen, hvordan har du det?|Dhivehi:ބާއްޖަވެރި ހެނދުނެއް
Dutch:Goedemorgen, hoe gaat het?|English:Good morning, how are you?|Esperanto:Bonan matenon, kiel vi fartas?|Estonian:Tere hommikust!
Ewe:Ŋdi, èfɔ̃a?|Faroese:Góðan morgun|Filipino:Magandang umaga|Finnish:Hyvää huomenta, mitä kuuluu?
French:Bonjour, comment ça va ?|Frisian:Goeiemoarn|Galician:Bos días, como está?|Georgian:დილა მშვიდობისა
German:Guten Morgen, wie geht es Ihnen?|Greek:Καλημέρα, τι κάνετε;|Guarani:Mba'éichapa reime?|Gujarati:સુપ્રભાત, કેમ છો?
Haitian:Bonjou, kijan ou ye?|Hausa:Barka da safiya|Hawaiian:Aloha kakahiaka|Hebrew:בוקר טוב, מה שלומך?
Hindi:सुप्रभात, आप कैसे हैं?|Hmong:Nyob zoo|Hungarian:Jó reggelt, hogy van?|Icelandic:Góðan daginn, hvað segir þú?
Igbo:Ụtụtụ ọma|Indonesian:Selamat pagi, apa kabar?|Irish:Maidin mhaith|Italian:Buongiorno, come sta?
Japanese:おはようございます。お元気ですか？|Javanese:Sugeng enjing|Kannada:ಶುಭೋದಯ|Kazakh:Қайырлы таң
Khmer:អរុណសួស្តី|Kinyarwanda:Mwaramutse|Korean:안녕하세요, 잘 지내세요?|Kurdish:Beyanî baş
Kyrgyz:Кутман таң|Lao:ສະບາຍດີ|Latin:Salve, quid agis?|Latvian:Labrīt, kā klājas?
Lingala:Mbote na ntongo|Lithuanian:Labas rytas, kaip sekasi?|Luxembourgish:Gudde Moien|Macedonian:Добро утро
Malagasy:Manao ahoana|Malay:Selamat pagi|Malayalam:സുപ്രഭാതം|Maltese:Bonġu, kif inti?
Maori:Mōrena|Marathi:शुभ प्रभात|Mongolian:Өглөөний мэнд|Nepali:शुभ प्रभात
Norwegian:God morgen, hvordan går det?|Occitan:Bonjorn|Odia:ସୁପ୍ରଭାତ|Pashto:سهار مو پخیر
Persian:صبح بخیر، حال شما چطور است؟|Polish:Dzień dobry, jak się masz?|Portuguese:Bom dia, como está?|Punjabi:ਸ਼ੁਭ ਸਵੇਰ
Quechua:Allin p'unchay|Romanian:Bună dimineața|Russian:Доброе утро, как дела?|Samoan:Talofa
Scottish:Madainn mhath|Serbian:Добро јутро|Sinhala:සුභ උදෑසනක්|Slovak:Dobré ráno
Slovenian:Dobro jutro|Somali:Subax wanaagsan|Spanish:Buenos días, ¿cómo está?|Swahili:Habari za asubuhi
Swedish:God morgon, hur mår du?|Tamil:காலை வணக்கம்|Telugu:శుభోదయం|Thai:สวัสดีตอนเช้า
"""
SHAPES = (
    "{}",
    'She said: "{}", and left.',
    "{}\nA second line.",
    "{} 🎉👩‍👩‍👧🏳️‍🌈",
    '=HYPERLINK("http://x.example","{}")',
    "+{}",
    "-{}, 'quoted', \\backslash",
    "@{}",
    "a,b;c\t{}",
    '"""{}"""\r\n\r\nThe end.',
)
KILLS = 3
QUESTION = "Is this a question or a greeting? Answer with one word.\n\n{{sentence}}"


def rows(count: int) -> list[dict[str, str]]:
    """Return the rows of the table: every language in every shape."""
    spoken = [one.split(":", 1) for one in GREETINGS.strip().replace("\n", "|").split("|")]
    assert len({language for language, _ in spoken}) == 100, len(spoken)
    made = []
    for turn in range(len(SHAPES)):
        for number, (language, text) in enumerate(spoken):
            sentence = SHAPES[(number + turn) % len(SHAPES)].format(text)
            made.append({"id": f"{language}-{turn}", "language": language, "sentence": sentence})
    return made[:count]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.by_hand.rows_whole", allow_abbrev=False)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--table", type=Path, help="where the table is kept; default: nowhere")
    parser.add_argument("--host", help="a server to ask in the place of the embedded engine")
    arguments = parser.parse_args()
    made = rows(arguments.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = arguments.table or folder / "table.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(made[0]))
            writer.writeheader()
            writer.writerows(made)
        out = folder / "out"
        command = [sys.executable, MAIN, "--rows", str(table), QUESTION, "--key", "id"]
        where = ("--backend", "embedded", *LABELS)
        if arguments.host:
            where = ("--host", arguments.host, "--model", "llama3.2")
        command += [*where, "--no-system", "--artifact-out", str(out)]
        began = time.monotonic()
        for kill in range(1, KILLS + 1):
            wanted = len(made) * kill // (KILLS + 1)
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
            while process.poll() is None and len(list(out.glob("*/*.json"))) < wanted:
                time.sleep(0.05)
            assert process.poll() is None, "it has ended before it was killed"
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            print(f"killed with {len(list(out.glob('*/*.json')))} artifacts", flush=True)
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
        seconds = time.monotonic() - began
        check(made, out, done.stdout)
        labels = Counter(
            str(json.loads(line)["content"]).strip() for line in done.stdout.splitlines()
        )
        print(f"{len(made)} rows are whole, each once, in {seconds:.0f} s: {labels.most_common(5)}")
    return 0


def check(made: list[dict[str, str]], out: Path, stdout: bytes) -> None:
    """Require every row on stdout and in the folder, once, with its own sentence."""
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert [line["row"] for line in lines] == list(range(1, len(made) + 1))
    assert [line["key"] for line in lines] == [row["id"] for row in made]
    assert all(line["error"] is None for line in lines)
    paths = sorted(str(path) for path in out.glob("*/*.json"))
    assert sorted(line["artifact"] for line in lines) == paths
    for line, row in zip(lines, made, strict=True):
        artifact = json.loads(Path(line["artifact"]).read_text())
        sentence = row["sentence"].replace("\r\n", "\n")
        assert artifact["input"]["prompt"].replace("\r\n", "\n").endswith(sentence)
    part = 500
    for first in range(0, len(paths), part):
        verify = [sys.executable, MAIN, "--verify", *paths[first : first + part]]
        subprocess.run(verify, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


LABELS = ("--choose", "question,greeting")

if __name__ == "__main__":
    sys.exit(main())

"""Fragments of text, and lines of them: mixed scripts, code, emoji, runs of blanks, control characters.

`lines` is written twice, here and in crates/cascade-checkpoint/tests/it/sentencepiece.rs, so that ten thousand lines
need not be stored. fragments.json holds the fragments for both.
"""

import json
from pathlib import Path

WORDS = """
the of and to in is that for it as was with on are be this by from at or an have not which one all we can were her has
there been their more if will would who about so up out when them some time these could two may then do first any my now
such like our over new even most after also did many before must through years where much way well should because each
how just those people too little state good very make world still own see men work long here get both between life being
under never day same another know while last might us great old year off come since against go came right used take three
draft verify accept reject token tokens tree trees model models target drafter cascade table tables count counts row rows
question answer apples eggs clips friends half sold sells bought costs dollars cents hours minutes weeks miles price total
each every remaining altogether together twice times more less than left how many much does she he they buy sell make give
Natalia Weng Julie Betty Janet Mark James Tina Toula Carlos Question Answer Step Therefore Finally However Suppose
walk walked walking walker talk talked talking talker read reading reader write writing writer run running runner
quick brown fox jumps lazy dog river mountain valley forest bridge garden window kitchen station market harbour island
""".split()

OTHERS = [
    # Other scripts.
    "über", "Straße", "naïve", "façade", "señor", "mañana", "crème", "brûlée", "Ångström", "smörgås", "žluťoučký", "kůň",
    "łódź", "İstanbul", "ığdır", "ẞ", "ﬁne", "ﬂow", "Ｆｕｌｌ", "ｗｉｄｔｈ", "①②③", "½", "™", "℃", "x²", "H₂O", "№",
    "добрый", "день", "вопрос", "ответ", "Привет,", "мир", "Ελληνικά", "ερώτηση", "απάντηση", "ﷺ", "سؤال", "جواب", "שלום",
    "עולם", "प्रश्न", "उत्तर", "नमस्ते", "ภาษาไทย", "คำถาม", "東京", "問題", "答え", "日本語のテキスト", "ｶﾀｶﾅ", "カタカナ",
    "北京", "问题", "答案", "한국어", "질문", "ᄒ", "ᅡ", "e\u0301", "n\u0303", "a\u0308\u0323", "🜁", "𝒳", "𝔘", "𐍈",
    # Emoji.
    "🙂", "🎉", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈", "❤️", "☕", "1️⃣",
    # Code.
    "fn main() {", "}", "let x = 1;", "=>", "->", "::", "!=", "<=", "&&", "||", "++i", "x[i]", "f(x, y)", "# comment",
    "// note", "/* c */", "\"text\"", "'c'", "`code`", "<div>", "</div>", "<br/>", "{\"k\": [1, 2]}", "$HOME", "a_b_c",
    "CamelCase", "snake_case", "0x1F", "1e-6", "3.14", "12,345", "50%", "$12", "#### 10", "/usr/bin", "C:\\dir",
    "https://example.org/a?b=c&d=%20", "user@example.org", "\\n", "\\u00e9", "^", "~", "|", "…", "—", "–", "“", "”", "‘",
    # What a tokenizer may take for its own.
    "<s>", "</s>", "<unk>", "<pad>", "<0x0A>", "<0xE2>", "<extra_id_0>", "<extra_id_99>", "<extra_id_100>", "▁", "▁▁",
    "<ent>", "<mask>", "[INST]", "[/INST]", "<<SYS>>",
    # Blanks and what looks like them, and what cannot be seen.
    "  ", "   ", "     ", "\t", "\t\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u2003", "\u200b", "\u3000", "\ufeff",
    "\u0085", "\u2028", "\u0000", "\u0001", "\u0007", "\u001b[31m", "\u007f", "\u00ad", "\u202e", "\ufffd",
]

SEPARATORS = [" ", " ", " ", " ", " ", "", ", ", ". ", "  ", "\n", "-", ": "]


def generator(seed):
    """xorshift64*: the same numbers everywhere."""
    state = seed
    while True:
        state ^= state >> 12
        state = (state ^ state << 25) & (1 << 64) - 1
        state ^= state >> 27
        yield (state * 2685821657736338717 & (1 << 64) - 1) >> 33


def lines(seed, count):
    numbers = generator(seed)

    def pick(things):
        return things[next(numbers) % len(things)]

    for _ in range(count):
        line = ""
        for _ in range(1 + next(numbers) % 14):
            kind = next(numbers) % 8
            if kind < 5:
                line += pick(WORDS)
            elif kind < 7:
                line += pick(OTHERS)
            else:
                line += str(next(numbers) % 10 ** (1 + next(numbers) % 6))
            line += pick(SEPARATORS)
        yield line


if __name__ == "__main__":
    content = {"words": WORDS, "others": OTHERS, "separators": SEPARATORS}
    path = Path(__file__).parent / "fragments.json"
    path.write_text(json.dumps(content, ensure_ascii=True, separators=(",", ":")) + "\n")

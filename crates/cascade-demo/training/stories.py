#!/usr/bin/env python3
"""Word problems from files of stories, for training. The format is in README.md beside this file.

    stories.py check FILE...    tells what is wrong, and how many stories and wordings there are
    stories.py show FILE...     prints a problem of each story
"""
import argparse, functools, math, random, re, sys
from collections import Counter
from pathlib import Path

WOMEN = """Ada Amy Anna Bella Clara Dora Ella Emma Fay Gina Hana Ines Ivy Jane Julia Kate Lena Lily Lucy Maria Mia Nina Olga
Priya Rosa Ruth Sara Zoe Abby Aisha Alice Amara Beth Carla Carmen Chloe Diana Elena Erin Esther Eva Fatima Freya Grace Hannah
Helen Holly Iris Jade Jasmine Joan Joy June Karen Laila Laura Leah Linda Lola Mabel Maya Megan Mei Molly Naomi Nora Nadia Paige
Pam Penny Rachel Rita Robin Rose Sally Sofia Stella Susan Tara Tess Tina Uma Vera Wendy Yara Yuki""".split()
MEN = """Adam Ali Ben Carl Dan David Emil Eric Felix Finn Hugo Ivan Jack James Jonas Ken Leo Luis Mark Max Noah Omar Oscar Paul
Peter Sam Tom Victor Aaron Alan Andre Andy Arjun Bill Bob Brian Caleb Chen Chris Cole Colin Diego Dylan Eli Ethan Evan Frank Fred
George Greg Hassan Henry Ian Isaac Jacob Jake Jason Joel John Josh Juan Kai Karl Kevin Kofi Kyle Lars Liam Logan Lucas Marco Mateo
Matt Mike Nate Nick Nils Owen Pablo Pedro Phil Ravi Ray Rob Ryan Scott Sean Steve Tim Tyler Will Zach""".split()
THINGS = dict(
    toy="sticker marble card shell coin stamp bead button balloon pebble ribbon badge postcard toy_car block doll puzzle keychain robot "
        "yo-yo figurine comic magnet feather crystal token patch/patches poster sea_shell photo".split(),
    baked="cookie muffin bun roll waffle pancake cupcake pretzel brownie bagel scone croissant tart donut biscuit pie".split(),
    fruit="apple pear plum peach/peaches lemon orange melon cherry/cherries fig lime banana mango/mangoes kiwi strawberry/strawberries "
          "apricot grape coconut tomato/tomatoes carrot potato/potatoes onion pumpkin".split(),
    goods="cup lamp chair shirt hat scarf/scarves ball kite book puzzle candle plate basket towel mirror clock pillow blanket mug "
          "bowl vase jacket belt wallet toy game backpack umbrella glove bottle rug".split(),
    supply="pencil pen notebook eraser ruler crayon marker brush/brushes folder binder stapler highlighter notepad envelope".split(),
    flower="rose tulip daisy/daisies lily/lilies poppy/poppies sunflower orchid violet carnation daffodil".split(),
    container="box/boxes bag crate jar pack drawer tin basket shelf/shelves carton tray bucket case bin packet".split(),
    animal="cow sheep/sheep goat pig horse chicken duck rabbit hen goose/geese turkey llama cat dog bird fish/fish".split(),
    sweet="candy/candies lollipop chocolate mint gumdrop caramel toffee jellybean marshmallow".split(),
)
SURNAMES = """Novak Smith Garcia Kim Rossi Brown Haddad Okafor Larsen Patel Nguyen Silva Moore Tanaka Weber Cohen Diaz Ivanova Jones
Kowalski Lee Martin Meyer Costa Evans Fischer Gupta Hill Jansen Khan Lopez Murphy Olsen Park Reed Singh Turner Vargas Wood Young""".split()
NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()
RELATIVES = "brother sister cousin friend neighbor uncle aunt teacher classmate roommate grandmother grandfather mother father son " \
            "daughter nephew niece coach boss".split()
PLACES = "shop market store fair museum bazaar mall bakery supermarket kiosk garden_center bookstore".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
# Of these, the word itself.
PLAIN = dict(relative=RELATIVES, place=PLACES, day=DAYS)
TITLED = [f"{title} {surname}" for title in ("Mr.", "Mrs.", "Ms.") for surname in SURNAMES]
FIELD = re.compile(r"\{([A-Za-z_]\w*(?:\.\w+)?)\}")
MOST = 5000
# Draws after which a story is given up.
DRAWS = 200


class Mistake(Exception):
    pass


class Story:
    """A story: numbers and words to draw, and wordings of its sentences."""

    def __init__(self, name, lines, source):
        self.name, self.source = name, source
        self.draws, self.facts, self.asks, self.steps, self.answer, self.free = [], [], [], [], None, False
        for line in lines:
            key, _, rest = line.partition(":")
            key, rest = key.strip(), rest.strip()
            wordings = [w.strip() for w in rest.split("|")]
            if key == "draw":
                self.draws += [d.strip() for d in rest.split(";") if d.strip()]
            elif key == "fact":
                self.facts.append(wordings)
            elif key == "ask":
                self.asks += wordings
            elif key == "step":
                self.steps.append(wordings)
            elif key == "answer":
                self.answer = rest
            elif key == "any order":
                self.free = True
            else:
                raise Mistake(f"{source}: {name}: what is `{key}`?")
        if not (self.facts and self.asks and self.steps and self.answer):
            raise Mistake(f"{source}: {name} needs fact, ask, step and answer")

    def wordings(self):
        return len(self.asks) * math.prod(map(len, self.facts))

    def tell(self, rng):
        """Question and answer, as the program's own problems have them."""
        values = self.values(rng)
        facts = [rng.choice(w) for w in self.facts]
        if self.free:
            rng.shuffle(facts)
        question = " ".join(self.fill(w, values) for w in facts + [rng.choice(self.asks)])
        if rng.random() < 0.3:
            question = SMALL.sub(lambda found: in_words(rng, found), question)
        steps = [self.fill(rng.choice(w), values) for w in self.steps]
        result = values["numbers"][self.answer]
        return question, " ".join(steps) + f" #### {result}"

    def values(self, rng):
        """Numbers that fit, and words, by name."""
        for _ in range(DRAWS):
            values = self.drawn(rng)
            if values is not None:
                return values
        raise Mistake(f"{self.source}: {self.name}: no numbers fit {self.draws}")

    def drawn(self, rng):
        """The same, or `None` where the numbers drawn do not fit."""
        numbers, words, used = {}, {}, set()
        for draw in self.draws:
            name, sign, rest = ([*draw.split(" ", 2), "", ""])[:3]
            if name == "where":
                if not evaluate(draw.removeprefix("where "), numbers):
                    return None
            elif sign == "=":
                value = evaluate(rest, numbers)
                if value != int(value) or not 0 < value <= MOST:
                    return None
                numbers[name] = int(value)
            elif sign != "in":
                raise Mistake(f"{self.source}: {self.name}: what is `{draw}`?")
            elif ".." in rest:
                low, high = (int(evaluate(part, numbers)) for part in rest.split(".."))
                if low > high:
                    return None
                numbers[name] = rng.randint(low, high)
            elif rest[:1].isdigit():
                numbers[name] = int(rng.choice(rest.split(",")))
            else:
                pool, forms = self.pool(rng, rest)
                word = rng.choice([w for w in pool if w not in used])
                used.add(word)
                words[name] = forms(word)
        return dict(numbers=numbers, words=words)

    def pool(self, rng, kind):
        """Words of a class or a list, and what gives the forms of one."""
        if kind == "person":
            return (TITLED if rng.random() < 0.1 else WOMEN + MEN), person
        if kind in THINGS:
            return THINGS[kind], thing
        if kind in PLAIN:
            return PLAIN[kind], plain
        options = [word.strip() for word in kind.split(",")]
        if len(options) < 2:
            raise Mistake(f"{self.source}: {self.name}: what is `{kind}`?")
        return options, lambda word: thing(word) if "/" in word else plain(word)

    def fill(self, wording, values):
        def field(found):
            name, _, form = found[1].partition(".")
            if name in values["numbers"] and not form:
                return str(values["numbers"][name])
            forms = values["words"].get(name)
            if forms is None or form not in forms:
                raise Mistake(f"{self.source}: {self.name}: what is `{found[0]}` in \"{wording}\"?")
            return forms[form]
        text = FIELD.sub(field, wording)
        if "{" in text or "}" in text:
            raise Mistake(f"{self.source}: {self.name}: a brace in \"{text}\"")
        return text[:1].upper() + text[1:]


def evaluate(expression, numbers):
    try:
        return eval(compiled(expression), {"__builtins__": {}, "min": min, "max": max}, dict(numbers))
    except Exception as error:
        raise Mistake(f"`{expression}`: {error}")


@functools.cache
def compiled(expression):
    return compile(expression.strip(), "<story>", "eval")


def person(name):
    she = name.split(" ")[0] in WOMEN + ["Mrs.", "Ms."]
    return {"": name, "she": "she" if she else "he", "her": "her" if she else "his", "She": "She" if she else "He",
            "Her": "Her" if she else "His", "him": "her" if she else "him"}


# A number that may be written as a word, and what is before it.
SMALL = re.compile(r"(^|[.?!] | )(2|3|4|5|6|7|8|9|10|11|12)(?= [a-z])")


def in_words(rng, found):
    before, number = found.groups()
    if rng.random() >= 0.7:
        return found[0]
    word = NUMBERS[int(number) - 1]
    return before + (word if before == " " else word.capitalize())


def plain(word):
    return {"": word.replace("_", " ")}


def thing(word):
    one, _, many = word.replace("_", " ").partition("/")
    many = many or one + "s"
    return {"": many, "one": one, "many": many}


def read(files):
    stories = []
    for file in files:
        name, lines = None, []
        for line in Path(file).read_text().splitlines() + ["story end"]:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if name is None and not line.startswith("story "):
                raise Mistake(f"{file}: `{line}` is before the first story")
            if line.startswith("story "):
                if name is not None:
                    stories.append(Story(name, lines, Path(file).name))
                name, lines = line.removeprefix("story "), []
            else:
                lines.append(line)
    return stories


def problems(files, seed):
    """An endless stream of questions and answers."""
    rng, stories = random.Random(seed), read(files)
    while True:
        yield rng.choice(stories).tell(rng)


EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = \$?(\d+)")


def check(story, rng):
    """Every wording once at least, every equation true, the last result the answer."""
    for _ in range(60):
        question, answer = story.tell(rng)
        steps, result = answer.split(" #### ")
        found = EQUATION.findall(steps)
        if len(found) < len(story.steps):
            raise Mistake(f"{story.source}: {story.name}: a step without an equation `a + b = c`: {steps}")
        for a, sign, b, c in found:
            if eval(f"{a}{sign}{b}") != int(c):
                raise Mistake(f"{story.source}: {story.name}: {a} {sign} {b} is not {c}")
        if found[-1][3] != result:
            raise Mistake(f"{story.source}: {story.name}: the last step gives {found[-1][3]}, the answer is {result}")
        for at, (*_, c) in enumerate(found[:-1]):
            if not any(c in (a, b) for a, _, b, _ in found[at + 1:]):
                raise Mistake(f"{story.source}: {story.name}: {c} is not used again: {steps}")
    values = story.values(rng)
    for wordings in story.facts + [story.asks] + story.steps:
        for wording in wordings:
            text = story.fill(wording, values)
            if text[-1] not in ".?!":
                raise Mistake(f"{story.source}: {story.name}: no full stop: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["check", "show"])
    parser.add_argument("files", nargs="+", metavar="FILE")
    args = parser.parse_args()
    rng, wrong = random.Random(0), []
    try:
        stories = read(args.files)
    except Mistake as error:
        sys.exit(f"error: {error}")
    if args.command == "show":
        for story in stories:
            question, answer = story.tell(rng)
            print(f"[{story.name}] {question}\n    {answer}")
        return
    for story in stories:
        try:
            check(story, rng)
        except Mistake as error:
            wrong.append(str(error))
    wrong += [f"{count} stories are called {name}" for name, count in Counter(s.name for s in stories).items() if count > 1]
    for line in wrong:
        print(line)
    print(f"{len(stories)} stories, {sum(s.wordings() for s in stories)} wordings, {len(wrong)} mistakes")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

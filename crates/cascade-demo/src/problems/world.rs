//! Who and what the problems are about.

/// Somebody with a name, and the words for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Person {
    pub(super) name: &'static str,
    /// `she` or `he`.
    pub(super) she: &'static str,
    /// The same at the beginning of a sentence.
    pub(super) starts: &'static str,
    /// `her` or `his`.
    pub(super) her: &'static str,
}

const fn woman(name: &'static str) -> Person {
    Person {
        name,
        she: "she",
        starts: "She",
        her: "her",
    }
}

const fn man(name: &'static str) -> Person {
    Person {
        name,
        she: "he",
        starts: "He",
        her: "his",
    }
}

/// Everybody.
#[rustfmt::skip]
pub(super) const PEOPLE: [Person; 56] = [
    woman("Ada"), woman("Amy"), woman("Anna"), woman("Bella"), woman("Clara"), woman("Dora"),
    woman("Ella"), woman("Emma"), woman("Fay"), woman("Gina"), woman("Hana"), woman("Ines"),
    woman("Ivy"), woman("Jane"), woman("Julia"), woman("Kate"), woman("Lena"), woman("Lily"),
    woman("Lucy"), woman("Maria"), woman("Mia"), woman("Nina"), woman("Olga"), woman("Priya"),
    woman("Rosa"), woman("Ruth"), woman("Sara"), woman("Zoe"),
    man("Adam"), man("Ali"), man("Ben"), man("Carl"), man("Dan"), man("David"), man("Emil"),
    man("Eric"), man("Felix"), man("Finn"), man("Hugo"), man("Ivan"), man("Jack"), man("James"),
    man("Jonas"), man("Ken"), man("Leo"), man("Luis"), man("Mark"), man("Max"), man("Noah"),
    man("Omar"), man("Oscar"), man("Paul"), man("Peter"), man("Sam"), man("Tom"), man("Victor"),
];

/// Something that is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thing {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

const fn thing(one: &'static str, many: &'static str) -> Thing {
    Thing { one, many }
}

/// What people collect, give away and lose.
#[rustfmt::skip]
pub(super) const TOYS: [Thing; 14] = [
    thing("sticker", "stickers"), thing("marble", "marbles"), thing("card", "cards"),
    thing("shell", "shells"), thing("coin", "coins"), thing("stamp", "stamps"),
    thing("bead", "beads"), thing("button", "buttons"), thing("balloon", "balloons"),
    thing("pebble", "pebbles"), thing("ribbon", "ribbons"), thing("badge", "badges"),
    thing("toy car", "toy cars"), thing("postcard", "postcards"),
];

/// What a baker makes.
#[rustfmt::skip]
pub(super) const BAKED: [Thing; 8] = [
    thing("cookie", "cookies"), thing("muffin", "muffins"), thing("bun", "buns"),
    thing("roll", "rolls"), thing("waffle", "waffles"), thing("pancake", "pancakes"),
    thing("cupcake", "cupcakes"), thing("pretzel", "pretzels"),
];

/// What grows on trees and in gardens.
#[rustfmt::skip]
pub(super) const FRUIT: [Thing; 10] = [
    thing("apple", "apples"), thing("pear", "pears"), thing("plum", "plums"),
    thing("peach", "peaches"), thing("lemon", "lemons"), thing("orange", "oranges"),
    thing("melon", "melons"), thing("cherry", "cherries"), thing("fig", "figs"),
    thing("lime", "limes"),
];

/// What shops sell for a price.
#[rustfmt::skip]
pub(super) const GOODS: [Thing; 16] = [
    thing("cup", "cups"), thing("lamp", "lamps"), thing("chair", "chairs"),
    thing("shirt", "shirts"), thing("hat", "hats"), thing("scarf", "scarves"),
    thing("ball", "balls"), thing("kite", "kites"), thing("book", "books"),
    thing("puzzle", "puzzles"), thing("candle", "candles"), thing("plate", "plates"),
    thing("basket", "baskets"), thing("towel", "towels"), thing("mirror", "mirrors"),
    thing("clock", "clocks"),
];

/// What a school bag holds.
#[rustfmt::skip]
pub(super) const SUPPLIES: [Thing; 7] = [
    thing("pencil", "pencils"), thing("pen", "pens"), thing("notebook", "notebooks"),
    thing("eraser", "erasers"), thing("ruler", "rulers"), thing("crayon", "crayons"),
    thing("marker", "markers"),
];

/// What leaves a line on paper.
#[rustfmt::skip]
pub(super) const PENS: [Thing; 5] = [
    thing("pencil", "pencils"), thing("pen", "pens"), thing("crayon", "crayons"),
    thing("marker", "markers"), thing("brush", "brushes"),
];

/// What blooms.
#[rustfmt::skip]
pub(super) const FLOWERS: [Thing; 6] = [
    thing("rose", "roses"), thing("tulip", "tulips"), thing("daisy", "daisies"),
    thing("lily", "lilies"), thing("poppy", "poppies"), thing("sunflower", "sunflowers"),
];

/// What things are put into.
#[rustfmt::skip]
pub(super) const CONTAINERS: [Thing; 7] = [
    thing("box", "boxes"), thing("bag", "bags"), thing("crate", "crates"), thing("jar", "jars"),
    thing("pack", "packs"), thing("drawer", "drawers"), thing("tin", "tins"),
];

/// Where things are bought.
pub(super) const SHOPS: [&str; 6] = ["shop", "market", "store", "fair", "museum shop", "bazaar"];

/// Where people go.
pub(super) const PLACES: [&str; 8] = [
    "lake", "beach", "park", "library", "zoo", "museum", "station", "castle",
];

/// Who else there is.
pub(super) const RELATIVES: [&str; 8] = [
    "brother", "sister", "cousin", "friend", "neighbor", "uncle", "aunt", "teacher",
];

/// Two days, one after the other.
pub(super) const DAYS: [(&str, &str); 5] = [
    ("Monday", "Tuesday"),
    ("Tuesday", "Wednesday"),
    ("Thursday", "Friday"),
    ("Friday", "Saturday"),
    ("Saturday", "Sunday"),
];

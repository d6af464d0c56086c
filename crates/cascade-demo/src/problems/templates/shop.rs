//! Prices and change.

use super::prelude::*;

pub(super) const ALL: [Template; 7] = [
    template!(change),
    template!(two_kinds),
    template!(price_of_one),
    template!(discount),
    template!(missing_money),
    template!(bundles, held out),
    template!(returned),
];

fn change(draw: &mut Draw) -> Story {
    let Person { name, she, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&GOODS);
    let shop = draw.one_of(&SHOPS);
    let (count, price) = (draw.number(2..=9), draw.number(2..=10));
    let cost = count * price;
    let bill = draw.number_of(if cost < 48 { &[50, 100] } else { &[100] });
    let left = bill - cost;
    Story::new(
        [
            say!(draw; "{name} buys {count} {many} for ${price} each.",
                "{name} takes {count} {many} from the {shop}. Each costs ${price}.",
                "At the {shop}, {name} buys {count} {many} at ${price} each."),
            say!(draw; "{name} pays with a ${bill} bill.", "{name} hands over ${bill}.",
                "{name} gives the seller ${bill}."),
        ],
        say!(draw; "How much change does {name} get?", "How many dollars does {she} get back?"),
        [
            format!("The {many} cost {count} * {price} = ${cost}."),
            format!("{name} gets {bill} - {cost} = ${left} back."),
        ],
        left,
    )
}

fn two_kinds(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let Thing { many, .. } = draw.thing(&GOODS);
    let Thing { many: others, .. } = draw.thing(&SUPPLIES);
    let (count, price) = (draw.number(2..=9), draw.number(3..=12));
    let (more, cheaper) = (draw.number(2..=12), draw.number(2..=5));
    let (first, second) = (count * price, more * cheaper);
    let total = first + second;
    Story::new(
        [
            say!(draw; "{name} buys {count} {many} for ${price} each.",
                "A shop sells {many} for ${price} each, and {name} takes {count}.",
                "{name} needs {count} {many}, which cost ${price} each."),
            say!(draw; "{starts} also buys {more} {others} for ${cheaper} each.",
                "{starts} adds {more} {others} at ${cheaper} each."),
        ],
        say!(draw; "How much does {name} pay in total?", "How much is that together?",
            "How many dollars does {she} spend?"),
        [
            format!("The {many} cost {count} * {price} = ${first}."),
            format!("The {others} cost {more} * {cheaper} = ${second}."),
            format!("Together that is {first} + {second} = ${total}."),
        ],
        total,
    )
}

fn price_of_one(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { one, many } = draw.thing(&GOODS);
    let shop = draw.one_of(&SHOPS);
    let (count, price, wanted) = (draw.number(2..=9), draw.number(2..=12), draw.number(2..=12));
    let (paid, cost) = (count * price, price * wanted);
    Story::new(
        [say!(draw; "{name} pays ${paid} for {count} {many}.",
            "At the {shop}, {count} {many} cost ${paid}.",
            "{name} buys {count} {many} and pays ${paid} for them.",
            "A set of {count} {many} costs ${paid}.")],
        say!(draw; "How much do {wanted} {many} cost at the same price?",
            "How much would {wanted} of them cost?",
            "What does {name} pay for {wanted} {many} at that price?"),
        [
            format!("One {one} costs {paid} / {count} = ${price}."),
            format!("So {wanted} {many} cost {price} * {wanted} = ${cost}."),
        ],
        cost,
    )
}

fn discount(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { one, .. } = draw.thing(&GOODS);
    let shop = draw.one_of(&SHOPS);
    let (percent, parts) = draw.one_of(&[(10, 10), (20, 5), (25, 4), (50, 2)]);
    let off = draw.number(2..=12);
    let price = parts * off;
    draw.drawn.numbers.push(percent);
    let now = price - off;
    Story::new(
        [
            say!(draw; "A {one} costs ${price}.", "The price of a {one} is ${price}.",
                "{name} wants a {one} that costs ${price}.",
                "{name} sees a {one} for ${price} at the {shop}."),
            say!(draw; "Today it is {percent} percent cheaper.",
                "In the sale it costs {percent} percent less.",
                "{name} gets {percent} percent off."),
        ],
        say!(draw; "How much does {name} pay?", "What does the {one} cost now?"),
        [
            format!("Now {percent} percent of {price} is {price} / {parts} = ${off}."),
            format!("So the {one} costs {price} - {off} = ${now}."),
        ],
        now,
    )
}

fn missing_money(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let Thing { many, .. } = draw.thing(&GOODS);
    let (count, price) = (draw.number(3..=9), draw.number(3..=12));
    let cost = count * price;
    let has = draw.number(2..=cost - 2);
    let missing = cost - has;
    Story::new(
        [
            say!(draw; "{name} has ${has}.", "{name} has saved ${has}.",
                "There is ${has} in the purse of {name}."),
            say!(draw; "{starts} wants to buy {count} {many} for ${price} each.",
                "{starts} needs {count} {many}, and each costs ${price}."),
        ],
        say!(draw; "How much more money does {name} need?", "How many dollars are missing?",
            "How much more must {she} save?"),
        [
            format!("The {many} cost {count} * {price} = ${cost}."),
            format!("{name} needs {cost} - {has} = ${missing} more."),
        ],
        missing,
    )
}

fn bundles(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&SUPPLIES);
    let Thing {
        one: pack,
        many: packs,
    } = draw.thing(&CONTAINERS);
    let (size, count, price) = (draw.number(3..=10), draw.number(2..=9), draw.number(2..=9));
    let (needed, cost) = (size * count, count * price);
    Story::new(
        [
            say!(draw; "A {pack} of {size} {many} costs ${price}.",
                "A shop sells {many} in {packs} of {size} for ${price}.",
                "{packs} of {size} {many} cost ${price} each."),
            say!(draw; "{name} needs {needed} {many}.", "{name} wants to have {needed} {many}.",
                "The class of {name} needs {needed} {many}."),
        ],
        say!(draw; "How much does {name} pay?", "How much do they cost?"),
        [
            format!("{name} needs {needed} / {size} = {count} {packs}."),
            format!("They cost {count} * {price} = ${cost}."),
        ],
        cost,
    )
}

fn returned(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let Thing { many, .. } = draw.thing(&GOODS);
    let (back, kept, price) = (draw.number(2..=6), draw.number(2..=9), draw.number(2..=12));
    let count = back + kept;
    let cost = kept * price;
    Story::new(
        [
            say!(draw; "{name} buys {count} {many} for ${price} each.",
                "{name} orders {count} {many} at ${price} each."),
            say!(draw; "{starts} brings {back} of them back and gets the money for those.",
                "Then {she} returns {back} of them and gets that money back.",
                "{starts} does not like {back} of them and returns them for the full price."),
        ],
        say!(draw; "How much has {name} paid in the end?", "How much do the other {many} cost?",
            "How many dollars has {she} spent then?"),
        [
            format!("{name} keeps {count} - {back} = {kept} {many}."),
            format!("They cost {kept} * {price} = ${cost}."),
        ],
        cost,
    )
}

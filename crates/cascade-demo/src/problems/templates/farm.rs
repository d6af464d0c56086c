//! Animals, eggs and harvests.

use super::prelude::*;

pub(super) const ALL: [Template; 6] = [
    template!(hens),
    template!(eggs_sold),
    template!(orchard),
    template!(legs),
    template!(milk),
    template!(two_harvests),
];

fn hens(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (hens, days) = (draw.number(2..=12), draw.number(2..=7));
    let per_day = 2 * hens;
    let (laid, before) = (per_day * days, draw.number(2..=30));
    let total = laid + before;
    Story::new(
        [
            say!(draw; "{name} has {hens} hens, and each lays 2 eggs a day.",
                "On the farm of {name}, {hens} hens lay 2 eggs each every day.",
                "Each of the {hens} hens of {name} lays 2 eggs a day."),
            say!(draw; "There are already {before} eggs in the kitchen.",
                "{name} still has {before} eggs from last week."),
        ],
        say!(draw; "How many eggs are there after {days} days?",
            "How many eggs does {name} have {days} days later?"),
        [
            format!("The hens lay {hens} * 2 = {per_day} eggs a day."),
            format!("In {days} days they lay {per_day} * {days} = {laid} eggs."),
            format!("With the others there are {laid} + {before} = {total} eggs."),
        ],
        total,
    )
}

fn eggs_sold(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let (kept, broken, price) = (draw.number(4..=12), draw.number(2..=9), draw.number(2..=5));
    let (found, earned) = (kept + broken, kept * price);
    Story::new(
        [
            say!(draw; "{name} finds {found} duck eggs.", "{name} collects {found} goose eggs.",
                "The ducks of {name} lay {found} eggs."),
            say!(draw; "{starts} drops {broken} of them and sells the rest for ${price} each.",
                "{broken} of them break, and {she} sells the others for ${price} each."),
        ],
        say!(draw; "How much does {name} earn?", "How many dollars does {she} get?",
            "How much money is that?"),
        [
            format!("{name} sells {found} - {broken} = {kept} eggs."),
            format!("{starts} gets {kept} * {price} = ${earned}."),
        ],
        earned,
    )
}

fn orchard(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { one, many } = draw.thing(&FRUIT);
    let (rows, trees) = (draw.number(2..=12), draw.number(3..=12));
    let all = rows * trees;
    let cut = draw.number(2..=(all - 2).min(40));
    let left = all - cut;
    Story::new(
        [
            say!(draw; "{name} plants {rows} rows of {trees} {one} trees.",
                "In the orchard of {name} there are {rows} rows with {trees} {one} trees each.",
                "{name} grows {many} on {rows} rows of {trees} trees."),
            say!(draw; "A storm breaks {cut} of the trees.", "{name} cuts down {cut} old trees.",
                "Of these, {cut} trees die in the first winter."),
        ],
        say!(draw; "How many trees are left?", "How many trees does {name} have now?"),
        [
            format!("There are {rows} * {trees} = {all} trees."),
            format!("Then {all} - {cut} = {left} trees are left."),
        ],
        left,
    )
}

fn legs(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (large, small) = draw.one_of(&[
        ("cows", "ducks"),
        ("goats", "hens"),
        ("horses", "geese"),
        ("dogs", "parrots"),
    ]);
    let (count, birds) = (draw.number(2..=12), draw.number(2..=20));
    let (first, second) = (4 * count, 2 * birds);
    let total = first + second;
    Story::new(
        [
            say!(draw; "{name} has {count} {large} and {birds} {small}.",
            "There are {count} {large} and {birds} {small} on the farm of {name}.",
            "{name} looks after {count} {large} and {birds} {small}.",
            "On a farm, {name} sees {count} {large} and {birds} {small}."),
        ],
        say!(draw; "How many legs do the animals have?", "How many legs is that in all?",
            "How many legs does {name} count?"),
        [
            format!("The {large} have {count} * 4 = {first} legs."),
            format!("The {small} have {birds} * 2 = {second} legs."),
            format!("In all there are {first} + {second} = {total} legs."),
        ],
        total,
    )
}

fn milk(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let (can, cans, used) = (
        draw.number(3..=10),
        draw.number(2..=10),
        draw.number(2..=15),
    );
    let rest = can * cans;
    let all = rest + used;
    Story::new(
        [
            say!(draw; "{name} gets {all} liters of milk from the cows.",
                "The cows of {name} give {all} liters of milk."),
            say!(draw; "{starts} makes cheese from {used} liters.",
                "{starts} uses {used} liters for butter.",
                "The family drinks {used} liters."),
            say!(draw; "The rest goes into cans of {can} liters.",
                "{starts} fills the rest into cans that hold {can} liters."),
        ],
        say!(draw; "How many cans are full?", "How many cans does {name} need?"),
        [
            format!("There are {all} - {used} = {rest} liters left."),
            format!("They fill {rest} / {can} = {cans} cans."),
        ],
        cans,
    )
}

fn two_harvests(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&FRUIT);
    let (day, next) = draw.one_of(&DAYS);
    let (first, more) = (draw.number(5..=60), draw.number(2..=30));
    let second = first + more;
    let total = first + second;
    Story::new(
        [
            say!(draw; "On {day}, {name} picks {first} {many}.",
                "{name} picks {first} {many} on {day}.",
                "{name} harvests {first} {many} on {day}."),
            say!(draw; "On {next} it is {more} more than on {day}.",
                "On {next}, {name} picks {more} more than the day before."),
        ],
        say!(draw; "How many {many} does {name} pick on both days?",
            "How many {many} is that in all?", "How many {many} are there together?"),
        [
            format!("On {next} it is {first} + {more} = {second} {many}."),
            format!("Together it is {first} + {second} = {total} {many}."),
        ],
        total,
    )
}

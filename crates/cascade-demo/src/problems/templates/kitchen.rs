//! Recipes and parties.

use super::prelude::*;

pub(super) const ALL: [Template; 5] = [
    template!(scaled),
    template!(trays),
    template!(pizza),
    template!(dough),
    template!(batches),
];

fn scaled(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&BAKED);
    let what = draw.one_of(&["cups of flour", "eggs", "spoons of sugar", "cups of milk"]);
    let (each, times, size) = (draw.number(2..=9), draw.number(2..=9), draw.number(4..=12));
    let (wanted, needed) = (size * times, each * times);
    Story::new(
        [
            say!(draw; "A recipe for {size} {many} needs {each} {what}.",
                "For {size} {many} one needs {each} {what}.",
                "{name} takes {each} {what} for {size} {many}."),
            say!(draw; "{name} wants to make {wanted} {many}.",
                "{name} has guests and makes {wanted} {many}."),
        ],
        say!(draw; "How many {what} does {name} need?", "How many {what} is that?"),
        [
            format!("{name} makes the recipe {wanted} / {size} = {times} times."),
            format!("That takes {each} * {times} = {needed} {what}."),
        ],
        needed,
    )
}

fn trays(draw: &mut Draw) -> Story {
    let Person { name, her, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&BAKED);
    let relative = draw.one_of(&RELATIVES);
    let (trays, each) = (draw.number(2..=9), draw.number(4..=12));
    let all = trays * each;
    let eaten = draw.number(2..=all - 2);
    let left = all - eaten;
    Story::new(
        [
            say!(draw; "{name} bakes {trays} trays of {each} {many}.",
                "{name} bakes {trays} trays with {each} {many} on each.",
                "There are {each} {many} on each of the {trays} trays of {name}."),
            say!(draw; "The {relative} of {name} eats {eaten} of them.",
                "{eaten} of the {many} are eaten at once.",
                "{name} gives {her} {relative} {eaten} of them."),
        ],
        say!(draw; "How many {many} are left?", "How many {many} does {name} still have?"),
        [
            format!("There are {trays} * {each} = {all} {many}."),
            format!("Then {all} - {eaten} = {left} are left."),
        ],
        left,
    )
}

fn pizza(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let dish = draw.one_of(&["pizzas", "cakes", "pies"]);
    let (count, slices) = (draw.number(3..=9), draw.number_of(&[6, 8, 10, 12]));
    let all = count * slices;
    let each = draw.number(2..=3);
    let guests = draw.number(3..=((all - 2) / each).min(8));
    let eaten = each * guests;
    let left = all - eaten;
    Story::new(
        [
            say!(draw; "{name} cuts {count} {dish} into {slices} slices each.",
                "For a party {name} orders {count} {dish} with {slices} slices each.",
                "{name} has {count} {dish}. Each is cut into {slices} slices."),
            say!(draw; "Each of {guests} guests eats {each} slices.",
                "{guests} people come and eat {each} slices each."),
        ],
        say!(draw; "How many slices are left?", "How many slices remain?"),
        [
            format!("There are {count} * {slices} = {all} slices."),
            format!("The guests eat {guests} * {each} = {eaten} slices."),
            format!("Then {all} - {eaten} = {left} slices are left."),
        ],
        left,
    )
}

fn dough(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let (flour, sugar) = (draw.multiple(10, 10..=30), draw.multiple(10, 2..=9));
    let butter = 2 * sugar;
    let first = flour + sugar;
    let total = first + butter;
    Story::new(
        [
            say!(draw; "{name} mixes {flour} grams of flour with {sugar} grams of sugar.",
                "{name} takes {flour} grams of flour and {sugar} grams of sugar.",
                "{name} reads that a dough needs {flour} grams of flour and {sugar} grams of sugar."),
            say!(draw; "{starts} adds twice as much butter as sugar.",
                "It needs twice as much butter as sugar.",
                "The butter weighs twice as much as the sugar."),
        ],
        say!(draw; "How many grams is that in all?", "How much does the dough weigh in grams?"),
        [
            format!("The butter is {sugar} * 2 = {butter} grams."),
            format!("Flour and sugar are {flour} + {sugar} = {first} grams."),
            format!("In all it is {first} + {butter} = {total} grams."),
        ],
        total,
    )
}

fn batches(draw: &mut Draw) -> Story {
    let Person { name, her, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&BAKED);
    let (fits, batches) = (draw.number(4..=12), draw.number(2..=9));
    let minutes = draw.number_of(&[5, 6, 8, 9, 10, 11, 12]);
    let (all, time) = (fits * batches, batches * minutes);
    Story::new(
        [
            say!(draw; "The oven of {name} holds {fits} {many}.",
                "{name} can bake {fits} {many} at a time.",
                "{fits} {many} fit into the oven of {name}."),
            say!(draw; "They take {minutes} minutes.", "Each time takes {minutes} minutes.",
                "After {minutes} minutes they are done."),
        ],
        say!(draw; "How many minutes does {name} need for {all} {many}?",
            "In how many minutes are {all} {many} ready for {her} guests?"),
        [
            format!("{name} bakes {all} / {fits} = {batches} times."),
            format!("That takes {batches} * {minutes} = {time} minutes."),
        ],
        time,
    )
}

//! More and fewer, older and younger.

use super::prelude::*;

pub(super) const ALL: [Template; 6] = [
    template!(times_as_many),
    template!(three_people),
    template!(ages),
    template!(after_a_gift),
    template!(heights),
    template!(scores),
];

fn times_as_many(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (first, times) = (draw.number(3..=30), draw.number(2..=5));
    let second = first * times;
    let total = first + second;
    Story::new(
        [
            say!(draw; "{name} has {first} {many}.", "{name} collects {first} {many}.",
                "{name} counts {first} {many}."),
            say!(draw; "{other} has {times} times as many.",
                "{other} has {times} times as many {many} as {name}."),
        ],
        say!(draw; "How many {many} do they have together?", "How many {many} is that in all?",
            "How many {many} have the two?"),
        [
            format!("{other} has {first} * {times} = {second} {many}."),
            format!("Together they have {first} + {second} = {total} {many}."),
        ],
        total,
    )
}

fn three_people(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: second, .. } = draw.person();
    let Person { name: third, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (has, more) = (draw.number(10..=40), draw.number(2..=20));
    let (of_second, fewer) = (has + more, draw.number(2..=9));
    let of_third = of_second - fewer;
    let two = has + of_second;
    let total = two + of_third;
    Story::new(
        [
            say!(draw; "{name} has {has} {many}.", "{name} finds {has} {many}."),
            say!(draw; "{second} has {more} more than {name}.",
                "{second} has {more} more {many} than {name}.",
                "That is {more} fewer than {second} has."),
            say!(draw; "{third} has {fewer} fewer than {second}.",
                "{third} has {fewer} {many} fewer than {second}."),
        ],
        say!(draw; "How many {many} do the three have?", "How many {many} is that in all?"),
        [
            format!("{second} has {has} + {more} = {of_second} {many}."),
            format!("{third} has {of_second} - {fewer} = {of_third} {many}."),
            format!("{name} and {second} have {has} + {of_second} = {two}."),
            format!("In all it is {two} + {of_third} = {total} {many}."),
        ],
        total,
    )
}

fn ages(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let (age, younger, years) = (
        draw.number(15..=60),
        draw.number(2..=12),
        draw.number(2..=10),
    );
    let second = age - younger;
    let now = age + second;
    let later = 2 * years;
    let total = now + later;
    Story::new(
        [
            say!(draw; "{name} is {age} years old.", "{name} turns {age} today."),
            say!(draw; "{other} is {younger} years younger.",
                "{other} is {younger} years younger than {name}.",
                "That is {younger} years more than {other}."),
        ],
        say!(draw; "How old will they be together in {years} years?",
            "What is the sum of their ages in {years} years?"),
        [
            format!("{other} is {age} - {younger} = {second} years old."),
            format!("Together they are {age} + {second} = {now} years old."),
            format!("In {years} years each is older, which adds 2 * {years} = {later} years."),
            format!("Then it is {now} + {later} = {total} years."),
        ],
        total,
    )
}

fn after_a_gift(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (gift, has) = (draw.number(2..=15), draw.number(2..=30));
    let then = has + gift;
    let apart = draw.number(2..=20);
    let rest = then + apart;
    let first = rest + gift;
    Story::new(
        [
            say!(draw; "{name} has {first} {many}, and {other} has {has}.",
                "{name} has {first} {many} and {other} {has}.",
                "{other} has {has} {many}. {name} has {first}."),
            say!(draw; "{name} gives {gift} to {other}.", "{other} gets {gift} of them from {name}.",
                "{name} gives {other} {gift} {many}."),
        ],
        say!(draw; "How many more {many} does {name} have than {other} now?",
            "By how many {many} is {name} still ahead of {other}?"),
        [
            format!("{name} has {first} - {gift} = {rest} {many}."),
            format!("{other} has {has} + {gift} = {then} {many}."),
            format!("The difference is {rest} - {then} = {apart}."),
        ],
        apart,
    )
}

fn heights(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let what = draw.one_of(&["tower", "wall", "pile"]);
    let (block, count, taller) = (draw.number(3..=9), draw.number(3..=12), draw.number(2..=20));
    let first = block * count;
    let second = first + taller;
    Story::new(
        [
            say!(draw; "{name} builds a {what} of {count} blocks. Each block is {block} inches high.",
                "{name} puts {count} blocks of {block} inches on top of each other.",
                "The {what} of {name} has {count} blocks, each {block} inches high."),
            say!(draw; "The {what} of {other} is {taller} inches higher.",
                "{other} builds one that is {taller} inches higher."),
        ],
        say!(draw; "How high is the {what} of {other} in inches?",
            "How many inches does {other} reach?"),
        [
            format!("{name} builds {count} * {block} = {first} inches."),
            format!("{other} builds {first} + {taller} = {second} inches."),
        ],
        second,
    )
}

fn scores(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let (goals, worth) = (draw.number(3..=12), draw.number(2..=5));
    let first = goals * worth;
    let behind = draw.number(2..=first - 2);
    let second = first - behind;
    let total = first + second;
    Story::new(
        [
            say!(draw; "In a game {name} hits {goals} times, and each hit is worth {worth} points.",
                "{name} scores {goals} goals of {worth} points each.",
                "{name} gets {worth} points for each of {goals} answers."),
            say!(draw; "{other} has {behind} points fewer.",
                "{other} is {behind} points behind {name}."),
        ],
        say!(draw; "How many points do they have together?",
            "How many points do {name} and {other} have in all?"),
        [
            format!("{name} has {goals} * {worth} = {first} points."),
            format!("{other} has {first} - {behind} = {second} points."),
            format!("Together they have {first} + {second} = {total} points."),
        ],
        total,
    )
}

//! Giving, dividing and what is left over.

use super::prelude::*;

pub(super) const ALL: [Template; 6] = [
    template!(share_and_add),
    template!(left_over),
    template!(put_together),
    template!(half_away),
    template!(third_away),
    template!(bags),
];

fn share_and_add(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (friends, each, has) = (draw.number(2..=9), draw.number(2..=12), draw.number(2..=30));
    let all = friends * each;
    let total = each + has;
    Story::new(
        [
            say!(draw; "{name} shares {all} {many} equally among {friends} friends.",
                "{name} divides {all} {many} equally between {friends} friends.",
                "{friends} friends of {name} get {all} {many} in equal parts."),
            say!(draw; "{other} is one of them and already has {has} {many}.",
                "One of them is {other}, who already has {has}."),
        ],
        say!(draw; "How many {many} does {other} have now?",
            "How many {many} is that for {other} in all?"),
        [
            format!("Each friend gets {all} / {friends} = {each} {many}."),
            format!("So {other} has {each} + {has} = {total} {many}."),
        ],
        total,
    )
}

fn left_over(draw: &mut Draw) -> Story {
    let Person { name, she, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (children, each, left) = (draw.number(3..=12), draw.number(2..=9), draw.number(2..=20));
    let given = children * each;
    let all = given + left;
    Story::new(
        [
            say!(draw; "{name} has {all} {many}.", "{name} brings {all} {many} to a party.",
                "There are {all} {many} in the bag of {name}."),
            say!(draw; "Each of {children} children gets {each} of them.",
                "{children} children take {each} {many} each.",
                "To {children} children, {she} gives {each} each."),
        ],
        say!(draw; "How many {many} are left over?", "How many {many} does {name} keep?"),
        [
            format!("The children get {children} * {each} = {given} {many}."),
            format!("Then {all} - {given} = {left} are left over."),
        ],
        left,
    )
}

fn put_together(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (each, albums) = (draw.number(3..=12), draw.number(2..=9));
    let all = each * albums;
    let first = draw.number(2..=all - 2);
    let second = all - first;
    let Thing {
        one,
        many: containers,
    } = draw.thing(&CONTAINERS);
    Story::new(
        [
            say!(draw; "{name} has {first} {many} and {other} has {second}.",
                "{name} owns {first} {many}, and {second} belong to {other}."),
            say!(draw; "They put them together into {albums} {containers}, the same number in each.",
                "Together they fill {albums} {containers} equally.",
                "They divide all of them equally between {albums} {containers}."),
        ],
        say!(draw; "How many {many} are in each {one}?", "How many {many} does a {one} hold?"),
        [
            format!("Together they have {first} + {second} = {all} {many}."),
            format!("Each {one} gets {all} / {albums} = {each} {many}."),
        ],
        each,
    )
}

fn half_away(draw: &mut Draw) -> Story {
    let Person {
        name, her, starts, ..
    } = draw.person();
    let Thing { many, .. } = draw.thing(&FLOWERS);
    let relative = draw.one_of(&RELATIVES);
    let (half, more) = (draw.number(3..=50), draw.number(2..=30));
    let (all, total) = (2 * half, half + more);
    Story::new(
        [
            say!(draw; "{name} picks {all} {many}.", "{name} has {all} {many}.",
                "In the garden {name} cuts {all} {many}."),
            say!(draw; "{starts} gives half of them to {her} {relative}.",
                "Half of them are for {her} {relative}."),
            say!(draw; "Then {name} picks {more} more.", "Later {name} gets {more} more."),
        ],
        say!(draw; "How many {many} does {name} have now?", "How many {many} has {name} then?"),
        [
            format!("{name} gives away {all} / 2 = {half} and keeps {half} {many}."),
            format!("Then {name} has {half} + {more} = {total} {many}."),
        ],
        total,
    )
}

fn third_away(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&TOYS);
    let (part, parts) = draw.one_of(&[("third", 3), ("quarter", 4), ("fifth", 5), ("tenth", 10)]);
    let given = draw.number(2..=12);
    let all = given * parts;
    let rest = all - given;
    let lost = draw.number(2..=rest - 2);
    draw.drawn.numbers.push(parts);
    let left = rest - lost;
    Story::new(
        [
            say!(draw; "{name} has {all} {many}.", "{name} owns {all} {many}.",
                "There are {all} {many} in the room of {name}."),
            say!(draw; "{starts} gives a {part} of them to {other}.",
                "A {part} of them goes to {other}.", "{other} gets a {part} of them."),
            say!(draw; "Then {name} loses {lost}.", "{lost} of the others get lost."),
        ],
        say!(draw; "How many {many} does {name} have left?", "How many {many} remain?"),
        [
            format!("A {part} of {all} is {all} / {parts} = {given}."),
            format!("So {name} keeps {all} - {given} = {rest} {many}."),
            format!("In the end {rest} - {lost} = {left} are left."),
        ],
        left,
    )
}

fn bags(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&FRUIT);
    let Thing {
        one,
        many: containers,
    } = draw.thing(&CONTAINERS);
    let (count, each) = (draw.number(2..=12), draw.number(2..=12));
    let all = count * each;
    let more = draw.number(2..=40);
    let total = all + more;
    Story::new(
        [
            say!(draw; "{name} has {count} {containers} with {each} {many} in each.",
                "{name} fills {count} {containers} with {each} {many} each.",
                "In each of {count} {containers}, {name} puts {each} {many}."),
            say!(draw; "There are {more} more on the table.",
                "Another {more} {many} do not fit into a {one}.",
                "{starts} has {more} others in a bowl."),
        ],
        say!(draw; "How many {many} are there?", "How many {many} does {name} have in all?"),
        [
            format!("In the {containers} are {count} * {each} = {all} {many}."),
            format!("In all there are {all} + {more} = {total} {many}."),
        ],
        total,
    )
}

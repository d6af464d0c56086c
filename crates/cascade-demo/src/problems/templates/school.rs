//! Classes, books and tests.

use super::prelude::*;

pub(super) const ALL: [Template; 7] = [
    template!(absent),
    template!(desks),
    template!(quiz, held out),
    template!(shelves),
    template!(album),
    template!(tickets),
    template!(groups),
];

fn absent(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (girls, boys, ill) = (draw.number(6..=20), draw.number(6..=20), draw.number(2..=6));
    let all = girls + boys;
    let there = all - ill;
    Story::new(
        [
            say!(draw; "The class of {name} has {girls} girls and {boys} boys.",
                "{name} teaches {girls} girls and {boys} boys.",
                "There are {girls} girls and {boys} boys in the class of {name}."),
            say!(draw; "Today {ill} of them are ill.", "{ill} of the children are at home today.",
                "Today {ill} children are missing."),
        ],
        say!(draw; "How many children are there today?", "How many children does {name} see today?"),
        [
            format!("The class has {girls} + {boys} = {all} children."),
            format!("Today there are {all} - {ill} = {there} children."),
        ],
        there,
    )
}

fn desks(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (rows, each, pupils) = (draw.number(3..=9), draw.number(3..=9), draw.number(2..=12));
    let all = rows * each;
    let needed = all + pupils;
    let room = draw.one_of(&["classroom", "hall", "library"]);
    Story::new(
        [
            say!(draw; "In the {room} there are {rows} rows of {each} desks, and all are used.",
                "{name} sees {rows} full rows of {each} desks in the {room}."),
            say!(draw; "Then {pupils} new children come, and each needs a desk.",
                "{pupils} more desks are brought.",
                "{name} adds {pupils} more desks."),
        ],
        say!(draw; "How many desks are there then?", "How many desks does the {room} have now?"),
        [
            format!("There are {rows} * {each} = {all} desks."),
            format!("Then there are {all} + {pupils} = {needed} desks."),
        ],
        needed,
    )
}

fn quiz(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (right, points, wrong) = (draw.number(6..=12), draw.number(3..=9), draw.number(2..=8));
    let won = right * points;
    let lost = 2 * wrong;
    let score = won - lost;
    Story::new(
        [
            say!(draw; "In a quiz each right answer is worth {points} points, and a wrong one costs 2.",
                "A quiz gives {points} points for a right answer and takes 2 for a wrong one."),
            say!(draw; "{name} has {right} right and {wrong} wrong answers.",
                "{name} gets {right} right and {wrong} wrong.",
                "Of the answers of {name}, {right} are right and {wrong} are wrong."),
        ],
        say!(draw; "How many points does {name} have?", "What is the score of {name}?"),
        [
            format!("The right answers give {right} * {points} = {won} points."),
            format!("The wrong ones cost {wrong} * 2 = {lost} points."),
            format!("The score is {won} - {lost} = {score}."),
        ],
        score,
    )
}

fn shelves(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (shelves, each) = (draw.number(2..=12), draw.number(4..=12));
    let all = shelves * each;
    let lent = draw.number(2..=all - 2);
    let left = all - lent;
    let back = draw.number(2..=20);
    let now = left + back;
    Story::new(
        [
            say!(draw; "A library has {shelves} shelves of {each} books.",
                "On each of {shelves} shelves, {name} puts {each} books.",
                "{name} has {shelves} shelves with {each} books each."),
            say!(draw; "People take {lent} books and bring {back} others.",
                "{lent} books are lent, and {back} new ones come.",
                "{name} gives away {lent} books and buys {back} new ones."),
        ],
        say!(draw; "How many books are there now?", "How many books is that now?"),
        [
            format!("At first there are {shelves} * {each} = {all} books."),
            format!("Then {all} - {lent} = {left} are left."),
            format!("Now there are {left} + {back} = {now} books."),
        ],
        now,
    )
}

fn album(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let (fits, pages, bought) = (draw.number(4..=12), draw.number(3..=10), draw.number(2..=5));
    let space = fits * pages;
    let has = draw.number(3..=space - bought - 2);
    let all = has + bought;
    let free = space - all;
    Story::new(
        [
            say!(draw; "An album has {pages} pages for {fits} photos each.",
                "The album of {name} has {pages} pages, and {fits} photos fit on each."),
            say!(draw; "{name} has {has} photos and takes {bought} more.",
                "{name} puts in {has} photos and then {bought} more.",
                "{starts} has {has} photos, and {she} gets {bought} more."),
        ],
        say!(draw; "How many more photos fit in when all are in?",
            "How many free places are left?"),
        [
            format!("There is place for {pages} * {fits} = {space} photos."),
            format!("{name} has {has} + {bought} = {all} photos."),
            format!("There are {space} - {all} = {free} free places."),
        ],
        free,
    )
}

fn tickets(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let place = draw.one_of(&["zoo", "museum", "circus", "castle", "pool"]);
    let (adults, price) = (draw.number(2..=9), draw.number(6..=12));
    let (children, cheaper) = (draw.number(2..=12), draw.number(2..=5));
    let (first, second) = (adults * price, children * cheaper);
    let total = first + second;
    Story::new(
        [
            say!(draw; "A ticket for the {place} costs ${price} for adults and ${cheaper} for children.",
                "In the {place} adults pay ${price} and children ${cheaper}."),
            say!(draw; "{name} buys tickets for {adults} adults and {children} children.",
                "{adults} adults and {children} children come with {name}, who pays for them.",
                "{name} pays for {adults} adults and {children} children."),
        ],
        say!(draw; "How much does {name} pay?", "How much do the tickets cost?"),
        [
            format!("The adults cost {adults} * {price} = ${first}."),
            format!("The children cost {children} * {cheaper} = ${second}."),
            format!("Together it is {first} + {second} = ${total}."),
        ],
        total,
    )
}

fn groups(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&SUPPLIES);
    let (size, groups, each) = (draw.number(2..=6), draw.number(3..=9), draw.number(2..=9));
    let (pupils, needed) = (size * groups, groups * each);
    Story::new(
        [
            say!(draw; "{name} divides {pupils} children into groups of {size}.",
                "{pupils} children work in groups of {size} in the class of {name}.",
                "{name} makes groups of {size} from {pupils} children."),
            say!(draw; "Each group gets {each} {many}.", "{each} {many} are for each group.",
                "Each of the groups needs {each} {many}."),
        ],
        say!(draw; "How many {many} are needed?", "How many {many} does {name} need?"),
        [
            format!("There are {pupils} / {size} = {groups} groups."),
            format!("They need {groups} * {each} = {needed} {many}."),
        ],
        needed,
    )
}

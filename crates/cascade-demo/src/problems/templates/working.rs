//! Machines, readers and hours.

use super::prelude::*;

pub(super) const ALL: [Template; 7] = [
    template!(machine),
    template!(reading),
    template!(two_workers),
    template!(tank, held out),
    template!(practice),
    template!(days_and_weeks),
    template!(long_day),
];

fn machine(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Thing { many, .. } = draw.thing(&SUPPLIES);
    let (rate, first, second) = (draw.number(3..=12), draw.number(2..=6), draw.number(2..=6));
    let minutes = first + second;
    let made = rate * minutes;
    Story::new(
        [
            say!(draw; "A machine makes {rate} {many} a minute.",
                "The machine of {name} makes {rate} {many} each minute.",
                "Every minute a machine makes {rate} {many}."),
            say!(draw; "It runs for {first} minutes, stops, and runs for {second} more.",
                "{name} lets it run for {first} minutes and later for {second} minutes."),
        ],
        say!(draw; "How many {many} does it make?", "How many {many} does {name} get?"),
        [
            format!("It runs for {first} + {second} = {minutes} minutes."),
            format!("It makes {rate} * {minutes} = {made} {many}."),
        ],
        made,
    )
}

fn reading(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let (pages, days, read) = (
        draw.number(4..=12),
        draw.number(2..=12),
        draw.number(5..=40),
    );
    let rest = pages * days;
    let all = rest + read;
    Story::new(
        [
            say!(draw; "{name} reads a book of {all} pages.", "A book has {all} pages.",
                "The new book of {name} has {all} pages."),
            say!(draw; "{name} has read {read} of them and reads {pages} pages a day from now on.",
                "{read} are done, and {name} reads {pages} more each day.",
                "{starts} is on page {read} and reads {pages} pages every day."),
        ],
        say!(draw; "In how many days is the book finished?", "How many days does {name} still need?",
            "How many days does the rest take?"),
        [
            format!("There are {all} - {read} = {rest} pages left."),
            format!("That takes {rest} / {pages} = {days} days."),
        ],
        days,
    )
}

fn two_workers(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let Person { name: other, .. } = draw.person();
    let (does, what) = draw.one_of(&[
        ("packs", "boxes"),
        ("folds", "letters"),
        ("paints", "tiles"),
        ("checks", "tickets"),
        ("sews", "bags"),
    ]);
    let (first, second, hours) = (draw.number(3..=9), draw.number(2..=9), draw.number(2..=9));
    let both = first + second;
    let total = both * hours;
    Story::new(
        [
            say!(draw; "{name} {does} {first} {what} an hour, and {other} {does} {second}.",
            "In an hour {name} {does} {first} {what} and {other} {second}.",
            "{name} {does} {first} {what} each hour. {other} {does} {second} each hour.",
            "Each hour {name} {does} {first} {what}, while {other} {does} {second}."),
        ],
        say!(draw; "How many {what} is that in {hours} hours?",
            "How many {what} do they finish in {hours} hours?",
            "How many {what} are done after {hours} hours?"),
        [
            format!("Together it is {first} + {second} = {both} {what} an hour."),
            format!("In {hours} hours it is {both} * {hours} = {total} {what}."),
        ],
        total,
    )
}

fn tank(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (out, net, minutes) = (draw.number(2..=6), draw.number(2..=9), draw.number(3..=12));
    let into = out + net;
    let total = net * minutes;
    Story::new(
        [
            say!(draw; "Each minute {into} liters of water run into a tank.",
                "{name} fills a tank with {into} liters of water a minute."),
            say!(draw; "Through a hole {out} liters a minute are lost.",
                "It loses {out} liters every minute.",
                "At the same time {out} liters a minute run out."),
        ],
        say!(draw; "How many liters are in the tank after {minutes} minutes?",
            "How many liters does {name} have after {minutes} minutes?"),
        [
            format!("Each minute {into} - {out} = {net} liters stay."),
            format!("After {minutes} minutes there are {net} * {minutes} = {total} liters."),
        ],
        total,
    )
}

fn practice(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let what = draw.one_of(&["the piano", "chess", "the drums", "the flute", "new songs"]);
    let (morning, evening) = (draw.multiple(5, 2..=9), draw.multiple(5, 2..=9));
    let days = draw.number(2..=5);
    let day = morning + evening;
    let total = day * days;
    Story::new(
        [
            say!(draw; "{name} practices {what} for {morning} minutes in the morning.",
                "Every morning {name} practices {what} for {morning} minutes.",
                "In the morning {name} spends {morning} minutes on {what}."),
            say!(draw; "{starts} does another {evening} minutes in the evening.",
                "In the evening {evening} minutes follow."),
        ],
        say!(draw; "How many minutes is that in {days} days?",
            "How many minutes does {name} practice in {days} days?"),
        [
            format!("Each day it is {morning} + {evening} = {day} minutes."),
            format!("In {days} days it is {day} * {days} = {total} minutes."),
        ],
        total,
    )
}

fn days_and_weeks(draw: &mut Draw) -> Story {
    let Person { name, her, .. } = draw.person();
    let (weeks, days) = (draw.number(2..=10), draw.number(2..=6));
    let gone = draw.number(2..=9);
    let all = 7 * weeks;
    let total = all + days;
    let left = total - gone;
    Story::new(
        [
            say!(draw; "The holiday of {name} is {weeks} weeks and {days} days long.",
                "{name} stays with {her} aunt for {weeks} weeks and {days} days.",
                "{name} is away for {weeks} weeks and {days} days."),
            say!(draw; "{gone} days have passed.", "{gone} of the days are over.",
                "{name} has been there for {gone} days."),
        ],
        say!(draw; "How many days are left?", "How many more days does it last?"),
        [
            format!("The weeks have {weeks} * 7 = {all} days."),
            format!("It is {all} + {days} = {total} days in all."),
            format!("Now {total} - {gone} = {left} days are left."),
        ],
        left,
    )
}

fn long_day(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (hours, minutes) = (draw.number(2..=3), draw.multiple(5, 2..=9));
    let (pause, film) = (draw.number_of(&[5, 10, 15, 20]), 60 * hours);
    let first = film + minutes;
    let total = first + pause;
    let event = draw.one_of(&["film", "concert", "play", "match"]);
    Story::new(
        [
            say!(draw; "{name} sees a {event} of {hours} hours and {minutes} minutes.",
                "A {event} takes {hours} hours and {minutes} minutes.",
                "The {event} that {name} goes to lasts {hours} hours and {minutes} minutes."),
            say!(draw; "There is a break of {pause} minutes as well.",
                "A break adds {pause} minutes.",
                "It ends {pause} minutes late."),
        ],
        say!(draw; "How many minutes is that?", "How many minutes does {name} stay?"),
        [
            format!("The hours are {hours} * 60 = {film} minutes."),
            format!("With the minutes it is {film} + {minutes} = {first}."),
            format!("In all it is {first} + {pause} = {total} minutes."),
        ],
        total,
    )
}

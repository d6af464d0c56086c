//! Roads, buses and trains.

use super::prelude::*;

pub(super) const ALL: [Template; 6] = [
    template!(ride_and_walk),
    template!(bus, held out),
    template!(miles_to_go),
    template!(to_work),
    template!(fuel),
    template!(seats),
];

fn ride_and_walk(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let place = draw.one_of(&PLACES);
    let (speed, hours, miles) = (
        draw.multiple(10, 2..=9),
        draw.number(2..=6),
        draw.number(2..=9),
    );
    let ride = speed * hours;
    let total = ride + miles;
    let vehicle = draw.one_of(&["train", "bus", "car"]);
    Story::new(
        [
            say!(draw; "A {vehicle} goes {speed} miles an hour.",
                "In an hour, a {vehicle} goes {speed} miles."),
            say!(draw; "{name} rides it for {hours} hours and then walks {miles} miles to the {place}.",
                "After {hours} hours in it, {name} walks another {miles} miles to the {place}.",
                "{name} takes it for {hours} hours and walks the last {miles} miles to the {place}."),
        ],
        say!(draw; "How many miles does {name} travel?", "How long is the trip in miles?"),
        [
            format!("The {vehicle} goes {speed} * {hours} = {ride} miles."),
            format!("With the walk it is {ride} + {miles} = {total} miles."),
        ],
        total,
    )
}

fn bus(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let place = draw.one_of(&PLACES);
    let (at_first, off, on) = (
        draw.number(10..=40),
        draw.number(2..=8),
        draw.number(2..=15),
    );
    let fewer = at_first - off;
    let then = fewer + on;
    Story::new(
        [
            say!(draw; "There are {at_first} people on the bus of {name}.",
                "{name} drives a bus with {at_first} people."),
            say!(draw; "At the {place}, {off} people get off and {on} people get on.",
                "At the {place}, {off} people leave and {on} others come in.",
                "When it stops at the {place}, {off} leave and {on} get on."),
        ],
        say!(draw; "How many people are on the bus then?", "How many people ride on?"),
        [
            format!("After {off} get off there are {at_first} - {off} = {fewer} people."),
            format!("Then there are {fewer} + {on} = {then} people."),
        ],
        then,
    )
}

fn miles_to_go(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let place = draw.one_of(&PLACES);
    let (morning, evening, left) = (
        draw.number(5..=50),
        draw.number(5..=40),
        draw.number(5..=60),
    );
    let done = morning + evening;
    let way = done + left;
    Story::new(
        [
            say!(draw; "It is {way} miles to the {place}.", "The {place} is {way} miles away.",
                "{name} wants to cycle {way} miles to the {place}."),
            say!(draw; "{name} cycles {morning} miles in the morning and {evening} miles after lunch.",
                "{starts} does {morning} miles before lunch and {evening} miles after it."),
        ],
        say!(draw; "How many miles are left?", "How far does {name} still have to go?",
            "How many miles are there to go?"),
        [
            format!("{name} has done {morning} + {evening} = {done} miles."),
            format!("There are {way} - {done} = {left} miles left."),
        ],
        left,
    )
}

fn to_work(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let place = draw.one_of(&["work", "school", "the gym", "the pool"]);
    let (miles, days) = (draw.number(2..=12), draw.number(2..=6));
    let both = 2 * miles;
    let week = both * days;
    Story::new(
        [
            say!(draw; "{name} lives {miles} miles from {place}.",
                "From home to {place} it is {miles} miles for {name}.",
                "The way to {place} is {miles} miles long for {name}."),
            say!(draw; "{name} drives there and back on {days} days a week.",
                "On {days} days of the week {name} goes there and comes back."),
        ],
        say!(draw; "How many miles is that in a week?",
            "How many miles does {name} travel each week?"),
        [
            format!("There and back it is {miles} * 2 = {both} miles."),
            format!("In a week it is {both} * {days} = {week} miles."),
        ],
        week,
    )
}

fn fuel(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (used, per_liter, left) = (draw.number(2..=9), draw.number(6..=12), draw.number(5..=30));
    let (trip, tank) = (used * per_liter, used + left);
    Story::new(
        [
            say!(draw; "The car of {name} goes {per_liter} miles on a liter.",
                "With one liter, the van of {name} goes {per_liter} miles."),
            say!(draw; "There are {tank} liters in the tank.",
                "The tank holds {tank} liters at the start."),
            say!(draw; "{name} drives {trip} miles.", "{name} makes a trip of {trip} miles."),
        ],
        say!(draw; "How many liters are left?", "How many liters are in the tank then?"),
        [
            format!("The trip takes {trip} / {per_liter} = {used} liters."),
            format!("There are {tank} - {used} = {left} liters left."),
        ],
        left,
    )
}

fn seats(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let hall = draw.one_of(&["theater", "boat", "plane", "cinema", "hall"]);
    let (rows, seats) = (draw.number(5..=12), draw.number(4..=12));
    let all = rows * seats;
    let taken = draw.number(5..=all - 2);
    let free = all - taken;
    Story::new(
        [
            say!(draw; "A {hall} has {rows} rows of {seats} seats.",
                "In a {hall} there are {rows} rows with {seats} seats each.",
                "{name} counts {rows} rows of {seats} seats in the {hall}."),
            say!(draw; "{taken} of the seats are taken.", "People sit on {taken} of the seats."),
        ],
        say!(draw; "How many seats are free?", "How many seats can {name} choose from?"),
        [
            format!("There are {rows} * {seats} = {all} seats."),
            format!("Of these {all} - {taken} = {free} are free."),
        ],
        free,
    )
}

//! Python's `strftime` for the codes that templates use, in UTC.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Formats a time in seconds since 1970 UTC: `%Y %y %m %d %e %B %b %h %A %a %w %u %j %H %I %M %S %p %Z %z %F %T %D
/// %R %n %t %%`, with `-` to leave out padding (`%-d`). Other codes stay as they are.
pub fn strftime(format: &str, seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day, day_of_year) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let weekday = (days + 4) % 7;
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[weekday as usize];
    let hour_12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        let unpadded = code == Some('-');
        if unpadded {
            code = chars.next();
        }
        let number = |value: u64, width: usize| {
            if unpadded { value.to_string() } else { format!("{value:0width$}") }
        };
        match code {
            Some('Y') => out += &year.to_string(),
            Some('y') => out += &number(year % 100, 2),
            Some('m') => out += &number(month, 2),
            Some('d') => out += &number(day, 2),
            Some('e') => out += &format!("{day:2}"),
            Some('B') => out += month_name,
            Some('b' | 'h') => out += &month_name[..3],
            Some('A') => out += day_name,
            Some('a') => out += &day_name[..3],
            Some('w') => out += &weekday.to_string(),
            Some('u') => out += &((weekday + 6) % 7 + 1).to_string(),
            Some('j') => out += &number(day_of_year, 3),
            Some('H') => out += &number(hour, 2),
            Some('I') => out += &number(hour_12, 2),
            Some('M') => out += &number(minute, 2),
            Some('S') => out += &number(second, 2),
            Some('p') => out += if hour < 12 { "AM" } else { "PM" },
            Some('Z') => out += "UTC",
            Some('z') => out += "+0000",
            Some('F') => out += &format!("{year}-{month:02}-{day:02}"),
            Some('D') => out += &format!("{month:02}/{day:02}/{:02}", year % 100),
            Some('T') => out += &format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => out += &format!("{hour:02}:{minute:02}"),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('%') => out.push('%'),
            other => {
                out.push('%');
                out.extend(unpadded.then_some('-'));
                out.extend(other);
            }
        }
    }
    out
}

/// Year, month, day and day of the year of a day since 1970, in the Gregorian calendar. Years are counted
/// from March, so that the leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let day_of_year = if month > 2 { of_year + 60 + u64::from(leap) } else { of_year - 305 };
    (year, month, day, day_of_year)
}

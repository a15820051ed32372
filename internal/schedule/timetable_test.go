package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func timetable(t *testing.T, expression, zone string) Timetable {
	t.Helper()
	z, err := ParseZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Parse(expression, z)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return table
}

// times returns n times after a moment, as they are shown in the zone.
func times(t *testing.T, expression, zone, after string, n int) (out []string) {
	t.Helper()
	table, from := timetable(t, expression, zone), at(after)
	for range n {
		from = table.Next(from)
		if from.Location() != time.UTC {
			t.Errorf("%s is in %s, want UTC", from, from.Location())
		}
		out = append(out, from.In(table.zone).Format("01-02 15:04 MST"))
	}
	return out
}

func TestATimetableHasTheTimesOfItsCronExpression(t *testing.T) {
	for _, c := range []struct {
		expression, after string
		want              []string
	}{
		{"0 3 * * *", "2026-11-27T03:00:00Z", []string{"11-28 03:00 UTC", "11-29 03:00 UTC"}},
		{"0 3 * * *", "2026-11-27T02:59:59.999Z", []string{"11-27 03:00 UTC"}},
		{"*/20 * * * *", "2026-11-27T03:00:00Z", []string{"11-27 03:20 UTC", "11-27 03:40 UTC", "11-27 04:00 UTC"}},
		{"30 9 * * mon-fri", "2026-11-27T12:00:00Z", []string{"11-30 09:30 UTC", "12-01 09:30 UTC"}},
		{"30 9 * * MON-FRI", "2026-11-27T12:00:00Z", []string{"11-30 09:30 UTC"}},
		{"0 0 13 * 5", "2026-11-27T12:00:00Z", []string{"12-04 00:00 UTC", "12-11 00:00 UTC", "12-13 00:00 UTC"}}, // the 13th, and every Friday
		{"0 0 * * 7", "2026-11-27T12:00:00Z", []string{"11-29 00:00 UTC"}},
		{"*/30 *,5 ? * *", "2026-11-27T12:00:00Z", []string{"11-27 12:30 UTC", "11-27 13:00 UTC"}},
		{"@daily", "2026-11-27T12:00:00Z", []string{"11-28 00:00 UTC"}},
		{"@midnight", "2026-11-27T12:00:00Z", []string{"11-28 00:00 UTC"}},
		{"@hourly", "2026-11-27T12:00:00Z", []string{"11-27 13:00 UTC"}},
		{"@weekly", "2026-11-27T12:00:00Z", []string{"11-29 00:00 UTC"}},
		{"@monthly", "2026-11-27T12:00:00Z", []string{"12-01 00:00 UTC"}},
		{"@yearly", "2026-11-27T12:00:00Z", []string{"01-01 00:00 UTC"}},
		{"0 0 29 2 *", "2096-03-01T00:00:00Z", []string{"02-29 00:00 UTC"}}, // 2104: 2100 is no leap year
	} {
		if diff := cmp.Diff(c.want, times(t, c.expression, "", c.after, len(c.want))); diff != "" {
			t.Errorf("%s after %s (-want +got):\n%s", c.expression, c.after, diff)
		}
	}
}

// In Berlin, clocks are put from 02:00 to 03:00 on 2026-03-29, and from 03:00 to 02:00 on
// 2026-10-25.
func TestATimeThatDoesNotExistIsMovedToTheMomentAtWhichClocksArePutForward(t *testing.T) {
	for _, c := range []struct {
		expression string
		want       []string
	}{
		{"30 2 * * *", []string{"03-28 02:30 CET", "03-29 03:00 CEST", "03-30 02:30 CEST"}},
		{"0,30 2 * * *", []string{"03-28 02:00 CET", "03-28 02:30 CET", "03-29 03:00 CEST", "03-30 02:00 CEST"}}, // one tick for both
		{"0 2,3 * * *", []string{"03-28 02:00 CET", "03-28 03:00 CET", "03-29 03:00 CEST", "03-30 02:00 CEST"}},  // and for 03:00, which is the same moment
		{"0 1,4 * * *", []string{"03-28 01:00 CET", "03-28 04:00 CET", "03-29 01:00 CET", "03-29 04:00 CEST"}},   // others stay
		{"@daily", []string{"03-28 00:00 CET", "03-29 00:00 CET", "03-30 00:00 CEST"}},
	} {
		if diff := cmp.Diff(c.want, times(t, c.expression, "Europe/Berlin", "2026-03-27T22:00:00Z", len(c.want))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.expression, diff)
		}
	}
}

func TestATimeThatExistsTwiceCountsOnce(t *testing.T) {
	for _, c := range []struct {
		expression string
		want       []string
	}{
		{"30 2 * * *", []string{"10-24 02:30 CEST", "10-25 02:30 CEST", "10-26 02:30 CET"}},
		{"0,30 2 * * *", []string{"10-24 02:00 CEST", "10-24 02:30 CEST", "10-25 02:00 CEST", "10-25 02:30 CEST", "10-26 02:00 CET"}},
		{"0 2,3 * * *", []string{"10-24 02:00 CEST", "10-24 03:00 CEST", "10-25 02:00 CEST", "10-25 03:00 CET", "10-26 02:00 CET"}},
	} {
		if diff := cmp.Diff(c.want, times(t, c.expression, "Europe/Berlin", "2026-10-23T22:00:00Z", len(c.want))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.expression, diff)
		}
	}
	// a start between the two
	if diff := cmp.Diff([]string{"10-26 02:30 CET"}, times(t, "30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", 1)); diff != "" {
		t.Errorf("after 02:45 CEST (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10-26 02:30 CET"}, times(t, "30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", 1)); diff != "" {
		t.Errorf("after 02:15 CET, which is after the first 02:30 (-want +got):\n%s", diff)
	}
}

func TestATimetableOfAnyHourFollowsTheClock(t *testing.T) {
	for _, c := range []struct {
		expression, after string
		want              []string
	}{
		{"30 * * * *", "2026-03-28T23:45:00Z", []string{"03-29 01:30 CET", "03-29 03:30 CEST"}},
		{"@hourly", "2026-03-28T23:45:00Z", []string{"03-29 01:00 CET", "03-29 03:00 CEST"}},
		{"@HOURLY", "2026-10-24T23:45:00Z", []string{"10-25 02:00 CEST", "10-25 02:00 CET", "10-25 03:00 CET"}},
		{"30 * * * *", "2026-10-24T23:45:00Z", []string{"10-25 02:30 CEST", "10-25 02:30 CET", "10-25 03:30 CET"}},
		{"0 */2 * * *", "2026-10-24T21:45:00Z", []string{"10-25 00:00 CEST", "10-25 02:00 CEST", "10-25 02:00 CET", "10-25 04:00 CET"}},
	} {
		if diff := cmp.Diff(c.want, times(t, c.expression, "Europe/Berlin", c.after, len(c.want))); diff != "" {
			t.Errorf("%s after %s (-want +got):\n%s", c.expression, c.after, diff)
		}
	}
}

// In Lord Howe, clocks move by half an hour; in Apia, 2011-12-30 was left out; in Sao Paulo, a day
// could begin at 01:00.
func TestATimetableKnowsUnusualZones(t *testing.T) {
	for _, c := range []struct {
		expression, zone, after string
		want                    []string
	}{
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", []string{"10-04 02:30 +11", "10-05 02:15 +11"}},
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"12-31 00:00 +14", "12-30 12:00 +14"}},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"11-04 01:00 -02", "11-05 00:00 -02"}},
		{"0 9 * * *", "Asia/Kolkata", "2026-11-27T00:00:00Z", []string{"11-27 09:00 IST"}},
	} {
		if diff := cmp.Diff(c.want, times(t, c.expression, c.zone, c.after, len(c.want))); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", c.expression, c.zone, diff)
		}
	}
}

// The times of a day are compared with what the clock shows at each minute.
func TestEveryDayHasEachOfItsTimesOnce(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns"} {
		table := timetable(t, "17 2 * * *", zone)
		days := map[string]int{}
		end := at("2028-01-01T00:00:00Z")
		for next := table.Next(at("2026-01-01T00:00:00Z")); next.Before(end); next = table.Next(next) {
			days[next.In(table.zone).Format(time.DateOnly)]++
		}
		for day, n := range days {
			if n != 1 {
				t.Errorf("%s in %s has %d ticks, want 1", day, zone, n)
			}
		}
		if len(days) < 729 {
			t.Errorf("%s: %d days have a tick, want 730", zone, len(days))
		}
	}
}

func TestAQuestionMarkIsAStarWhenClocksAreChanged(t *testing.T) {
	for _, after := range []string{"2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"} {
		want, got := times(t, "30 * * * *", "Europe/Berlin", after, 4), times(t, "30 ? * * *", "Europe/Berlin", after, 4)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", after, diff)
		}
	}
}

func TestAnExpressionThatIsWrongIsRefusedWithTheReason(t *testing.T) {
	for expression, want := range map[string]string{
		"":                                "empty",
		"0 3 * *":                         "5 fields",
		"0 0 3 * * *":                     "has 6",
		"61 * * * *":                      `no cron expression: minute "61" must be from 0 to 59`,
		"x * * * *":                       `no cron expression: minute "x" must be`,
		"0 25 * * *":                      `hour "25" must be from 0 to 23`,
		"0 *-5 * * *":                     `hour "*-5" must be from 0 to 23`,
		"0 0 1,?-5/2 * *":                 `day of month "1,?-5/2" must be from 1 to 31`,
		"0 3 0 * *":                       `day of month "0" must be from 1 to 31`,
		"0 3 * JULY *":                    `month "JULY" must be from 1 to 12, or JAN to DEC`,
		"0 3 * * 1,8":                     `day of week "1,8" must be from 0 (Sunday) to 7, or SUN to SAT`,
		"@noon":                           "no cron expression: @noon is not known; use @hourly, @daily",
		"@every 5m":                       "*/5 * * * *",
		"@EVERY 5m":                       "*/5 * * * *",
		"cron_tz=UTC @daily":              "field timezone",
		"0 0 30 2 *":                      "never happens",
		"CRON_TZ=Europe/Berlin 0 3 * * *": "field timezone",
	} {
		if _, err := Parse(expression, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", expression, err, want)
		}
	}
	for _, zone := range []string{"Local", "Europe/Nowhere", "CEST+1"} {
		if _, err := ParseZone(zone); err == nil || !strings.Contains(err.Error(), "Europe/Berlin") {
			t.Errorf("zone %s: got %v, want an error with an example", zone, err)
		}
	}
}

func TestTheLatestTimeAndTheNumberOfMissedOnesAreFound(t *testing.T) {
	minutes, yearly := timetable(t, "* * * * *", ""), timetable(t, "@yearly", "")
	for _, c := range []struct {
		table             Timetable
		from, until, want string
		missed            int
	}{
		{minutes, "2020-01-01T00:00:00Z", "2026-11-27T03:00:30Z", "2026-11-27T03:00:00Z", 1000},
		{minutes, "2026-11-27T02:58:00Z", "2026-11-27T03:00:00Z", "2026-11-27T03:00:00Z", 1},
		{minutes, "2026-11-27T03:00:00Z", "2026-11-27T03:00:30Z", "", 0},
		{yearly, "2020-01-01T00:00:00Z", "2026-11-27T03:00:30Z", "2026-01-01T00:00:00Z", 5},
		{yearly, "2026-01-01T00:00:00Z", "2026-11-27T03:00:30Z", "", 0},
		{yearly, "2026-12-01T00:00:00Z", "2026-11-27T03:00:30Z", "", 0}, // the clock is behind
	} {
		got := c.table.Latest(at(c.from), at(c.until))
		if c.want == "" && got.IsZero() {
			continue
		}
		if c.want == "" || !got.Equal(at(c.want)) {
			t.Errorf("latest of (%s, %s]: got %s, want %s", c.from, c.until, got, c.want)
		}
		if n := c.table.Count(at(c.from), got, 1000); n != c.missed {
			t.Errorf("missed in (%s, %s): got %d, want %d", c.from, got, n, c.missed)
		}
	}
}

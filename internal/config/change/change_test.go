package change_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/config/change"
)

const base = `
name: eu
restores: ["2026-01-02T03:04:05Z"]
streams:
  orders: {destinations: [shop, us]}
  chat: {admission: sequence, log: {retain: 7d}}
  work: {pool: {}}
  uploads: {}
  gaps: {admission: sequence, gap: {policy: skip, after: 1d}}
destinations:
  shop: {webhook: "https://shop.example/hook"}
  us: {once: "https://us.example", stream: orders}
handlers:
  gaps: {url: "https://gaps.example"}
ingress:
  files: {from: s3, stream: uploads}
schedules:
  nightly: {cron: "0 3 * * *", stream: orders}
`

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEachChangeThatCanHurtIsOneLineWithItsRisk(t *testing.T) {
	busy := &change.Waiting{
		Streams: map[string]change.Stream{"orders": {Groups: 3, Pending: 2}, "chat": {Groups: 1, Held: 4, Restore: 1}, "gaps": {Held: 3}, "work": {Groups: 8}},
		Effects: map[string]int{"shop": 2, "us": 1}, Queued: 5, DeadLetters: 6, Sources: map[string]int{"files": 9},
	}
	idle := &change.Waiting{Streams: map[string]change.Stream{"orders": {Groups: 3}}, Sources: map[string]int{"files": 0}}
	for _, c := range []struct {
		name, old, changed string
		waiting            *change.Waiting
		want               []string // "subject: change [waiting] risk"
	}{
		{"nothing", "", "", busy, nil},
		{"a new handler", "handlers:\n", "handlers:\n  orders: {lambda: orders}\n", busy, []string{"handler orders: added [2 pending, 5 queued in all streams] risk"}},
		{"a new handler, idle", "handlers:\n", "handlers:\n  orders: {lambda: orders}\n", idle, []string{"handler orders: added []"}},
		{"no handler", "handlers:\n  gaps: {url: \"https://gaps.example\"}\n", "", busy, []string{"handler gaps: removed [5 queued in all streams] risk"}},
		{"another handler", "https://gaps.example", "https://gaps.example/2", busy, []string{"handler gaps: is another program []"}},
		{"a handler that may take longer", "{url: \"https://gaps.example\"", "{timeout: 1m, url: \"https://gaps.example\"", busy, nil},
		{"a new stream", "streams:\n", "streams:\n  more: {}\n", busy, nil},
		{"an option that is the default", "{destinations: [shop, us]}", "{admission: key, order: group, retention: 15d, destinations: [shop, us]}", busy, nil},
		{"admission", "orders: {", "orders: {admission: token, ", busy, []string{"stream orders: admission key -> token [2 pending, 5 queued in all streams] risk"}},
		{"admission, idle", "orders: {", "orders: {admission: token, ", idle, []string{"stream orders: admission key -> token []"}},
		{"admission, unknown", "orders: {", "orders: {admission: token, ", nil, []string{"stream orders: admission key -> token [] unknown"}},
		{"the times of a schedule", "0 3 * * *", "0 4 * * *", busy, []string{`schedule nightly: times "0 3 * * *" -> "0 4 * * *" []`}},
		{"the zone of a schedule", "{cron:", "{timezone: Europe/Berlin, cron:", busy, []string{`schedule nightly: times "0 3 * * *" -> "0 3 * * * Europe/Berlin" []`}},
		{"the body of a schedule", "{cron:", "{body: [], cron:", busy, nil},
		{"a schedule that is removed", "\n  nightly:", "\n  other:", busy, nil},
		{"order", "orders: {", "orders: {order: none, ", busy, []string{"stream orders: order group -> none [2 pending, 5 queued in all streams, 6 dead letters of all streams] risk"}},
		{"shorter retention", "orders: {", "orders: {retention: 1d, ", busy, []string{"stream orders: retention 15d -> 1d [6 dead letters of all streams, 5 queued in all streams] risk"}},
		{"retention above that of a queue", "orders: {", "orders: {retention: 14d, ", &change.Waiting{Queued: 5}, []string{"stream orders: retention 15d -> 14d []"}},
		{"retention of numbers", "admission: sequence", "admission: sequence, retention: 1d", busy, []string{"stream chat: retention 15d -> 1d []"}},
		{"longer retention", "orders: {", "orders: {retention: 20d, ", busy, []string{"stream orders: retention 15d -> 20d [6 dead letters of all streams] risk"}},
		{"states with an end", "orders: {", "orders: {state: {retain: 90d}, ", busy, []string{"stream orders: state.retain not set -> 90d []"}},
		{"gap fail", "admission: sequence", "admission: sequence, gap: {policy: fail, after: 1m}", busy, []string{"stream chat: gap.policy wait -> fail [4 held] risk"}},
		{"gap fail, idle", "admission: sequence", "admission: sequence, gap: {policy: fail, after: 1m}", idle, []string{"stream chat: gap.policy wait -> fail []"}},
		{"shorter gap", "gap: {policy: skip, after: 1d}", "gap: {policy: skip, after: 1s}", busy, []string{"stream gaps: gap.after 1d -> 1s [3 held] risk"}},
		{"longer gap", "gap: {policy: skip, after: 1d}", "gap: {policy: skip, after: 2d}", busy, nil},
		{"stream removed", "  chat: {admission: sequence, log: {retain: 7d}}\n", "", busy, []string{"stream chat: removed [4 held, 5 queued in all streams, 6 dead letters of all streams] risk"}},
		{"stream removed, idle", "  chat: {admission: sequence, log: {retain: 7d}}\n", "", idle, []string{"stream chat: removed []"}},
		{"log removed", ", log: {retain: 7d}", "", busy, []string{"stream chat: log removed [1 groups] risk"}},
		{"shorter log", "retain: 7d", "retain: 1d", busy, []string{"stream chat: log.retain 7d -> 1d []"}},
		{"pool removed", "work: {pool: {}}", "work: {log: {retain: 30d}}", busy, []string{"stream work: pool removed [8 groups] risk"}},
		{"pool added", "chat: {admission: sequence, log: {retain: 7d}}", "chat: {admission: sequence, pool: {}}", busy, []string{"stream chat: pool added [1 groups] risk"}},
		{"partitions", "pool: {}", "pool: {partitions: 16}", busy, []string{"stream work: pool.partitions 8 -> 16 [8 groups] risk"}},
		{"partitions by default", "pool: {}", "pool: {partitions: 8}", busy, nil},
		{"destination removed", "[shop, us]}", "[us]}", busy, nil},
		{"destination elsewhere", "shop.example/hook", "shop.example/new", busy, []string{"destination shop: sends to another place [2 effects pending] risk"}},
		{"destination's stream", "stream: orders}", "stream: other}", busy, []string{"destination us: sends to another place [1 effects pending] risk"}},
		{"source's stream", "stream: uploads", "stream: orders", busy, []string{"source files: stream uploads -> orders [9 in its queue, 6 dead letters of all streams] risk"}},
		{"source's identity", "from: s3", "from: sns", busy, []string{"source files: identity of its messages [9 in its queue, 6 dead letters of all streams] risk"}},
		{"source removed", "ingress:\n  files: {from: s3, stream: uploads}\n", "", busy, []string{"source files: removed [9 in its queue, 6 dead letters of all streams] risk"}},
		{"source removed, idle", "ingress:\n  files: {from: s3, stream: uploads}\n", "", idle, []string{"source files: removed []"}},
		{"source removed, not counted", "ingress:\n  files: {from: s3, stream: uploads}\n", "", &change.Waiting{}, []string{"source files: removed [] risk"}},
		{"source of another kind of queue", "from: s3", "from: sns, fifo: true", busy, []string{"source files: fifo false -> true [9 in its queue, 6 dead letters of all streams] risk"}},
		{"restores removed", `restores: ["2026-01-02T03:04:05Z"]`, "", idle, []string{"restores: entry 1 removed or changed [] risk"}},
		{"restores changed", "03:04:05", "03:04:06", busy, []string{"restores: entry 1 removed or changed [] risk"}},
		{"restores added", `05Z"]`, `05Z", "2026-02-02T03:04:05Z"]`, busy, nil},
		{"name", "name: eu", "name: europe", busy, []string{`name: "eu" -> "europe" [1 effects pending for other systems] risk`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(base, c.old) {
				t.Fatalf("%q is not in the configuration", c.old)
			}
			changes := change.Compare(parse(t, base), parse(t, strings.Replace(base, c.old, c.changed, 1)), c.waiting)
			var got []string
			for _, x := range changes {
				text := fmt.Sprintf("%s: %s [%s]", x.Subject, x.Change, x.Waiting)
				if x.Risk {
					text += " risk"
				}
				if x.Unknown {
					text += " unknown"
				}
				got = append(got, text)
				if x.Effect == "" || x.Do == "" {
					t.Errorf("%+v does not say what to do", x)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestARemovedDestinationIsARiskWhileEffectsWaitForIt(t *testing.T) {
	to := strings.Replace(strings.Replace(base, "[shop, us]", "[us]", 1), `  shop: {webhook: "https://shop.example/hook"}`+"\n", "", 1)
	for _, c := range []struct {
		waiting *change.Waiting
		risky   int
		unknown bool
	}{
		{&change.Waiting{Effects: map[string]int{"shop": 2}}, 1, false},
		{&change.Waiting{Effects: map[string]int{"us": 2}}, 0, false},
		{nil, 0, true},
	} {
		got := change.Compare(parse(t, base), parse(t, to), c.waiting)
		if len(got) != 1 || got[0].Subject != "destination shop" || change.Risky(got) != c.risky || change.Undecided(got) != c.unknown {
			t.Errorf("%+v: got %+v", c.waiting, got)
		}
	}
}

func TestGroupsWithNumbersOfARemovedRestoreAreCounted(t *testing.T) {
	to := strings.Replace(base, `restores: ["2026-01-02T03:04:05Z"]`, "", 1)
	got := change.Compare(parse(t, base), parse(t, to), &change.Waiting{Streams: map[string]change.Stream{"chat": {Groups: 7, Restore: 1}, "orders": {Groups: 2}}})
	if len(got) != 1 || !strings.HasPrefix(got[0].Waiting, "7 groups") {
		t.Errorf("got %+v", got)
	}
}

func TestOnlyAShorterRetentionOfStatesNeedsCare(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"90d", "60d", "state.retain 90d -> 60d"},
		{"60d", "90d", ""},
		{"60d", "60d", ""},
		{"forever", "60d", "state.retain forever -> 60d"},
		{"60d", "forever", ""},
	} {
		text := "streams: {a: {state: {retain: %s}, log: {}}}"
		changes := change.Compare(parse(t, fmt.Sprintf(text, c.from)), parse(t, fmt.Sprintf(text, c.to)), nil)
		if len(changes) != min(len(c.want), 1) || len(changes) == 1 && changes[0].Change != c.want {
			t.Errorf("%s to %s: %+v", c.from, c.to, changes)
		}
	}
	for _, from := range []string{"60d", "forever"} {
		if changes := change.Compare(parse(t, "streams: {a: {state: {retain: "+from+"}, log: {}}}"), parse(t, "streams: {a: {log: {}}}"), nil); len(changes) > 0 {
			t.Errorf("%s to the default: %+v", from, changes)
		}
	}
}

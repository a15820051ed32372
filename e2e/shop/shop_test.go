package shop

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShop uses a deployed app of two pipelines with the command line only. The checks run one
// after the other, because some look at everything that a pipeline has.
func TestShop(t *testing.T) {
	orders, billing := open(t)
	events := newEvents(t)
	for _, check := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"check finds nothing wrong in a pipeline except what the emulator dropped", func(t *testing.T) {
			checkFindsOnlyWhatWasDropped(t, orders)
			checkFindsOnlyWhatWasDropped(t, billing)
		}},
		{"check compares a file with the configuration of the named pipeline", func(t *testing.T) {
			checkComparesWithTheNamedPipeline(t, orders, billing)
			checkComparesWithTheNamedPipeline(t, billing, orders)
		}},
		{"a message to Orders is one event, and a duplicate gets the first answer", func(t *testing.T) { aMessageToOrdersIsOneEvent(t, orders, events) }},
		{"numbers of Billing are taken once, in their order", func(t *testing.T) { numbersOfBillingAreTakenOnce(t, billing) }},
		{"a pipeline has neither streams nor messages of the other", func(t *testing.T) { aPipelineHasNothingOfTheOther(t, orders, billing) }},
		{"a refused message is a dead letter and a line in the log of its pipeline only", func(t *testing.T) { aRefusedMessageIsInItsPipelineOnly(t, orders, billing) }},
		{"the console shows a pipeline, and nothing of the other", func(t *testing.T) { consoleShowsItsPipelineOnly(t, orders) }},
		{"sweep and show leave each pipeline idle", func(t *testing.T) {
			sweepLeavesNothing(t, orders)
			sweepLeavesNothing(t, billing)
		}},
	} {
		if !t.Run(check.name, check.run) {
			return
		}
	}
}

func checkFindsOnlyWhatWasDropped(t *testing.T, p *pipeline) {
	var out struct {
		Findings []struct{ Resource, Check, Verdict, Detail string }
	}
	p.json(t, &out, "check")
	if len(out.Findings) < 40 {
		t.Errorf("%s: only %d findings: %v", p.stack, len(out.Findings), out.Findings)
	}
	wrong := map[string][]string{}
	for _, f := range out.Findings {
		if f.Verdict != "ok" {
			wrong[f.Resource] = append(wrong[f.Resource], f.Check)
		}
	}
	want := map[string][]string{}
	for _, table := range []string{p.output("GroupsTable"), p.output("TokensTable")} {
		if len(p.dropped) > 0 {
			want[table] = p.dropped
		}
	}
	if d := cmp.Diff(want, wrong); d != "" {
		t.Errorf("%s: checks that are not ok (-want +got):\n%s", p.stack, d)
	}
}

func checkComparesWithTheNamedPipeline(t *testing.T, p, other *pipeline) {
	for _, x := range []struct {
		config string
		same   bool
	}{{p.config, true}, {other.config, false}} {
		var out struct {
			Same    bool
			Changes []struct{ Subject string }
		}
		p.json(t, &out, "check", "--config", file(t, x.config))
		if out.Same != x.same || x.same != (len(out.Changes) == 0) {
			t.Errorf("%s and %q: same is %v, changes %v", p.stack, x.config, out.Same, out.Changes)
		}
	}
}

func aMessageToOrdersIsOneEvent(t *testing.T, orders *pipeline, events *events) {
	send := func() (status string, replayed bool) {
		var out struct {
			Status   string
			Replayed bool
		}
		orders.json(t, &out, "send", "orders", `{"item":7}`, "--key", "o-1", "--group", "g", "--url", orders.url(), "--wait", "20s")
		return out.Status, out.Replayed
	}
	if status, replayed := send(); status != "done" || replayed {
		t.Errorf("the message: %s, replayed %v", status, replayed)
	}
	if status, replayed := send(); status != "done" || !replayed {
		t.Errorf("the duplicate: %s, replayed %v", status, replayed)
	}
	if text := orders.fails(t, exitRefused, "send", "orders", `{"item":8}`, "--key", "o-1", "--group", "g", "--url", orders.url()); !strings.Contains(text, "key-reuse") {
		t.Errorf("the key with other content: %s", text)
	}
	var shown struct{ Status, Group string }
	orders.json(t, &shown, "show", "orders", "--id", "o-1")
	if shown.Status != "done" || shown.Group != "g" {
		t.Errorf("show: %+v", shown)
	}
	// An event of the duplicate would have the number of the next message.
	orders.run(t, "send", "orders", `{"item":9}`, "--key", "o-2", "--group", "g", "--url", orders.url())
	want := []string{`once.orders orders/g/1 {"item":7}`, `once.orders orders/g/2 {"item":9}`}
	eventually(t, "the events", func() bool { return len(events.received(t)) >= len(want) })
	if d := cmp.Diff(want, events.received(t)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func numbersOfBillingAreTakenOnce(t *testing.T, billing *pipeline) {
	send := func(number string, more ...string) string {
		var out struct{ Status string }
		billing.json(t, &out, append([]string{"send", "bills", `{"cents":5}`, "--source", "till", "--sequence", number, "--url", billing.url()}, more...)...)
		return out.Status
	}
	type source struct {
		Next uint64
		Held [][]uint64
	}
	look := func() (all []source) {
		var out struct{ Sources []source }
		if billing.exists(t, &out, "show", "bills/till") {
			all = out.Sources
		}
		return all
	}
	send("2")
	eventually(t, "number 2 to be held", func() bool { return cmp.Equal([]source{{1, [][]uint64{{2, 2}}}}, look()) })
	if status := send("1", "--wait", "20s"); status != "done" {
		t.Errorf("number 1 is %s", status)
	}
	done := []source{{Next: 3, Held: [][]uint64{}}}
	eventually(t, "both numbers to be done", func() bool { return cmp.Equal(done, look()) })
	for _, number := range []string{"1", "2"} {
		if status := send(number, "--wait", "20s"); status != "done" {
			t.Errorf("the duplicate of number %s is %s", number, status)
		}
	}
	if d := cmp.Diff(done, look()); d != "" {
		t.Errorf("the source after duplicates (-want +got):\n%s", d)
	}
}

func aPipelineHasNothingOfTheOther(t *testing.T, orders, billing *pipeline) {
	for _, x := range []struct {
		of      *pipeline
		streams []string
	}{{orders, []string{"orders"}}, {billing, []string{"bills"}}} {
		var out struct{ Streams []struct{ Stream string } }
		x.of.json(t, &out, "show")
		var streams []string
		for _, s := range out.Streams {
			streams = append(streams, s.Stream)
		}
		if d := cmp.Diff(x.streams, streams); d != "" {
			t.Errorf("%s (-want +got):\n%s", x.of.stack, d)
		}
	}
	if text := billing.fails(t, exitNotFound, "show", "orders/g"); !strings.Contains(text, "not found") {
		t.Errorf("the group of Orders in Billing: %s", text)
	}
	if text := billing.fails(t, exitRefused, "send", "orders", "{}", "--key", "o-2", "--url", billing.url()); !strings.Contains(text, "unknown-stream") {
		t.Errorf("a message for Orders to Billing: %s", text)
	}
}

// aRefusedMessageIsInItsPipelineOnly sends by the queues, because the API refuses such a message.
func aRefusedMessageIsInItsPipelineOnly(t *testing.T, orders, billing *pipeline) {
	orders.run(t, "send", "orders", `{"item":7}`, "--key", "q-1", "--group", "q", "--queue", "fifo")
	eventually(t, "the first message", func() bool { return orders.exists(t, &struct{}{}, "show", "orders/q") })
	orders.run(t, "send", "orders", `{"item":8}`, "--key", "q-1", "--group", "q", "--queue", "standard")
	eventually(t, "the dead letter", func() bool { return deadLetters(t, orders) > 0 })
	type letter struct{ Queue, Reason, ID string }
	var letters []letter
	orders.json(t, &letters, "show", "--dead-letters")
	if d := cmp.Diff([]letter{{"ingress-dead", "key-reuse", "q-1"}}, letters); d != "" {
		t.Errorf("dead letters of Orders (-want +got):\n%s", d)
	}
	if n := deadLetters(t, billing); n != 0 {
		t.Errorf("Billing has %d dead letters", n)
	}
	lines := func(p *pipeline) (reasons []string) {
		for line := range strings.Lines(p.run(t, "logs", "--since", "10m", "--json")) {
			var l struct {
				Line struct{ Stream, Reason string }
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			reasons = append(reasons, strings.TrimSpace(l.Line.Stream+" "+l.Line.Reason))
		}
		return reasons
	}
	eventually(t, "the line in the log", func() bool { return slices.Contains(lines(orders), "orders key-reuse") })
	if all := lines(billing); slices.ContainsFunc(all, func(line string) bool { return strings.Contains(line, "orders") }) {
		t.Errorf("the log of Billing has lines of Orders: %q", all)
	}
	var dropped map[string]any
	orders.json(t, &dropped, "drop", "--id", "q-1", "--yes")
}

func sweepLeavesNothing(t *testing.T, p *pipeline) {
	counts := map[string]float64{}
	p.json(t, &counts, "sweep")
	if counts["groups"] == 0 || counts["failed"] != 0 || counts["waiting"] != 0 {
		t.Errorf("%s: sweep %v", p.stack, counts)
	}
	var totals struct{ Idle bool }
	eventually(t, "the system to be idle", func() bool {
		p.json(t, &totals, "show")
		return totals.Idle && deadLetters(t, p) == 0
	})
}

func deadLetters(t *testing.T, p *pipeline) int {
	t.Helper()
	var totals struct {
		DeadLetters int `json:"dead_letters"`
	}
	p.json(t, &totals, "show")
	return totals.DeadLetters
}

// checksOf returns the checks of a table that fail because an emulator drops its properties.
func checksOf(unsupported map[string]bool) []string {
	names := map[string]string{
		"AWS::DynamoDB::Table TimeToLiveSpecification":          "time to live",
		"AWS::DynamoDB::Table PointInTimeRecoverySpecification": "point-in-time recovery",
	}
	var checks []string
	for _, rule := range slices.Backward(slices.Sorted(maps.Keys(names))) {
		if unsupported[rule] {
			checks = append(checks, names[rule])
		}
	}
	return checks
}

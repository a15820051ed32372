package telemetry_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

// A document is a line in the embedded metric format, as CloudWatch reads it.
type document struct {
	namespace  string
	root       map[string]any
	timestamp  int64
	dimensions [][]string
	units      map[string]string
}

// documents reads lines, and checks them against the specification:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
func documents(t *testing.T, output string) []document {
	t.Helper()
	var out []document
	for line := range strings.Lines(output) {
		var root map[string]any
		if err := json.Unmarshal([]byte(line), &root); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if len(line) > 256<<10 || !strings.HasSuffix(line, "}\n") {
			t.Errorf("not a line of the log: %q", line)
		}
		d := document{root: root, units: map[string]string{}}
		d.metadata(t)
		out = append(out, d)
	}
	return out
}

func (d *document) metadata(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(d.root["_aws"])
	if err != nil {
		t.Fatal(err)
	}
	var aws struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	// "objects defined by this specification must not contain any additional members"
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&aws); err != nil || len(aws.CloudWatchMetrics) != 1 {
		t.Fatalf("metadata %s: %v", text, err)
	}
	m := aws.CloudWatchMetrics[0]
	d.namespace, d.timestamp, d.dimensions = m.Namespace, aws.Timestamp, m.Dimensions
	if m.Namespace == "" || len(m.Namespace) > 255 || len(m.Dimensions) == 0 || len(m.Metrics) == 0 || len(m.Metrics) > 100 {
		t.Errorf("directive %+v", m)
	}
	for _, set := range m.Dimensions {
		for _, name := range set {
			if value, ok := d.root[name].(string); !ok || value == "" || len(value) > 255 || len(set) > 9 {
				t.Errorf("dimension %s has the value %v", name, d.root[name])
			}
		}
	}
	for _, metric := range m.Metrics {
		value, ok := d.root[metric.Name].(float64)
		if !ok || math.IsNaN(value) || math.IsInf(value, 0) {
			t.Errorf("metric %s has the value %v", metric.Name, d.root[metric.Name])
		}
		if !slices.Contains([]string{"Seconds", "Count"}, metric.Unit) || len(metric.Name) > 255 {
			t.Errorf("metric %+v", metric)
		}
		d.units[metric.Name] = metric.Unit
	}
}

// values returns the metrics of a document.
func (d *document) values() map[string]float64 {
	out := map[string]float64{}
	for name := range d.units {
		out[name] = d.root[name].(float64)
	}
	return out
}

func moment() time.Time { return time.UnixMilli(1700000000123).UTC() }

// opened makes a telemetry that writes lines, as a function does.
func opened(t *testing.T, o telemetry.Options) (*telemetry.Telemetry, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	o.Output = &out
	if o.Now == nil {
		o.Now = moment
	}
	tm, err := telemetry.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tm, &out
}

func TestEventsAreAddedUpIntoOneLine(t *testing.T) {
	tm, out := opened(t, telemetry.Options{})
	for _, e := range []record.Event{
		{Name: record.EventProcessed, Count: 1},
		{Name: record.EventProcessed, Count: 2},
		{Name: record.EventDuplicate, Count: 1},
		{Name: record.EventHeld, Count: 1},
		{Name: record.EventRejected, Count: 1, Reason: record.ReasonKeyReuse},
		{Name: record.EventRejected, Count: 1, Reason: record.ReasonUnknown},
		{Name: record.EventRejected, Count: 3, Reason: record.ReasonGap},
		{Name: record.EventRetried, Count: 1},
		{Name: record.EventConflict, Count: 1},
		{Name: record.EventPublished, Count: 4},
		{Name: record.EventSkipped, Count: 7},
		{Name: record.EventDropped, Count: 5},
		{Name: record.EventGap, Count: 1, Age: 1500 * time.Millisecond},
		{Name: record.EventGap, Count: 1, Age: time.Second},
		{Name: record.EventPending, Count: 1, Age: time.Minute},
		{Name: record.EventPending, Count: 1, Age: -time.Minute}, // another clock
		{Name: record.EventHandlerFailed, Count: 1},
		{Name: record.EventAccepted, Count: 6, Age: 20 * time.Millisecond},
		{Name: record.EventAccepted, Count: 1, Age: 30 * time.Millisecond},
		{Name: record.EventReplayed, Count: 2, Age: time.Hour},
		{Name: record.EventRefused, Count: 3},
		{Name: record.EventFailed, Count: 4},
		{Name: record.EventStopped, Count: 1},
		{Name: record.EventTakeover, Count: 2},
		{Name: record.EventEndWaits, Count: 3},
		{Name: record.EventUnreadLate, Count: 4},
	} {
		e.Stream = "orders"
		tm.Observe(e)
	}
	tm.Flush(t.Context(), map[string]string{"requestId": "r-1"})
	docs := documents(t, out.String())
	if len(docs) != 1 {
		t.Fatalf("lines: %s", out)
	}
	d := docs[0]
	want := map[string]float64{
		"Processed": 3, "Duplicate": 1, "Held": 1, "Rejected": 5, "KeyReuse": 1, "Unknown": 1, "Retried": 1, "Conflict": 1, "Published": 4, "Skipped": 7, "DeadLetterDropped": 5,
		"GapAge": 1.5, "PendingAge": 60, "HandlerFailed": 1, "Accepted": 7, "Replayed": 2, "Refused": 3, "Failed": 4, "AcceptTime": 0.03, "SessionStopped": 1, "Takeover": 2, "EndWaits": 3, "UnreadLate": 4,
	}
	if diff := cmp.Diff(want, d.values()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for name, unit := range d.units {
		if age := strings.HasSuffix(name, "Age") || strings.HasSuffix(name, "Time"); age != (unit == "Seconds") {
			t.Errorf("%s is in %s", name, unit)
		}
	}
	if diff := cmp.Diff([][]string{{"stream"}, {}}, d.dimensions); diff != "" {
		t.Errorf("dimensions (-want +got):\n%s", diff)
	}
	if d.namespace != "Once" || d.timestamp != moment().UnixMilli() || d.root["stream"] != "orders" || d.root["requestId"] != "r-1" || d.root["level"] != "INFO" || d.root["timestamp"] != "2023-11-14T22:13:20.123Z" {
		t.Errorf("line %s", out)
	}
}

func TestEachStreamHasALineOfItsOwn(t *testing.T) {
	tm, out := opened(t, telemetry.Options{Known: func(s string) bool { return s != "made-up" }})
	for _, stream := range []string{"b", "a", "made-up", "a", ""} {
		tm.Observe(record.Event{Name: record.EventProcessed, Stream: stream, Count: 1})
	}
	tm.Flush(t.Context(), nil)
	got := map[string]float64{}
	for _, d := range documents(t, out.String()) {
		got[d.root["stream"].(string)] = d.values()["Processed"]
	}
	if diff := cmp.Diff(map[string]float64{"a": 2, "b": 1, telemetry.OtherStreams: 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingIsWrittenWhenNothingHappened(t *testing.T) {
	tm, out := opened(t, telemetry.Options{})
	tm.Flush(t.Context(), nil)
	tm.Observe(record.Event{Name: "nobody knows", Stream: "a", Count: 1})
	tm.Flush(t.Context(), nil)
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "a", Count: 1})
	tm.Flush(t.Context(), nil)
	if n := len(documents(t, out.String())); n != 1 {
		t.Errorf("%d lines", n)
	}
	tm.Flush(t.Context(), nil)
	if n := len(documents(t, out.String())); n != 1 {
		t.Errorf("%d lines: what was reported is reported again", n)
	}
}

func TestMetricsPassTheFilterOfTheLog(t *testing.T) {
	// Lambda drops lines below, and a line without a level is INFO
	t.Setenv("AWS_LAMBDA_LOG_LEVEL", "ERROR")
	tm, out := opened(t, telemetry.Options{})
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "a", Count: 1})
	tm.Flush(t.Context(), nil)
	if got := documents(t, out.String())[0].root["level"]; got != "ERROR" {
		t.Errorf("level %v", got)
	}
}

func TestDeploymentsCanHaveNamespacesOfTheirOwn(t *testing.T) {
	t.Setenv(telemetry.EnvNamespace, "Once/staging")
	tm, out := opened(t, telemetry.Options{})
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "a", Count: 1})
	tm.Flush(t.Context(), nil)
	if got := documents(t, out.String())[0].namespace; got != "Once/staging" {
		t.Errorf("namespace %s", got)
	}
}

func TestThePageListsEveryMetricWithItsUnit(t *testing.T) {
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, name := range telemetry.Metrics() {
		want[name] = telemetry.Unit(name) + " " + telemetry.OTelName(name) + " " + telemetry.OTelUnit(name)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]\\w+)` \\| (\\w+) \\| `([a-z._]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		got[m[1]] = m[2] + " " + m[3] + " " + m[4]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-code +page)\n%s", diff)
	}
}

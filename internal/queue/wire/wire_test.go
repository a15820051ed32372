package wire

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

var sentAt = time.UnixMilli(1770000000123).UTC()

// through sends a message over a queue and returns the record that its receiver gets.
func through(t testing.TB, m queue.Message) *queue.Delivery {
	t.Helper()
	for _, name := range []string{"ingress.fifo", "ingress"} {
		if err := m.ValidateLarge(name); err != nil {
			t.Fatalf("no queue takes a message of %d bytes: %v", m.Size(), err)
		}
	}
	return &queue.Delivery{Message: m, Queue: "ingress.fifo", ID: "message-id", Receipt: "r", SequenceNumber: "1", Receives: 1, Sent: sentAt}
}

var trusted = Defaults{Trusted: []string{Sender}}

func full() record.Message {
	return record.Message{
		Principal: "alice", Stream: "orders", ID: "käse \uFFFF", Group: "gr\uFFFEoup/ü", Source: "sensor", Epoch: 3, Sequence: 18446744073709551615,
		DependsOn: map[string]uint64{"Other Source": 7, "b": 1 << 60}, ContentType: "application/json",
		Headers: map[string]string{"traceparent": "00-é", "x": "line\nbreak"}, Body: []byte(`{"a":1}`),
		Parents: []uint64{17, 23}, Seen: clock.HybridAt(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)) + 3,
		Route: "POST /v1/x", Accepted: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC), NotBefore: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC),
	}
}

func TestAMessageIsDecodedAsItWasEncoded(t *testing.T) {
	for name, m := range map[string]record.Message{
		"everything": full(),
		"bare":       {Stream: "s", ID: "1", Body: []byte("x"), Accepted: sentAt},
		"numbered":   {Stream: "s", Source: "a", Sequence: 1, Body: []byte("x"), Accepted: sentAt},
		"timer":      {Stream: "s", ID: "timer:1:7", Group: "g", Timer: "käse \uFFFF", TimerNumber: 7, Body: []byte("x"), Accepted: sentAt, NotBefore: sentAt},
		"empty body": {Stream: "s", ID: "1", Accepted: sentAt},
		"binary":     {Stream: "s", ID: "1", Body: []byte{0, 1, 255}, Accepted: sentAt},
		"largest":    {Stream: "s", ID: "1", Body: []byte(strings.Repeat("\x00", record.MaxBody)), Accepted: sentAt},
	} {
		t.Run(name, func(t *testing.T) {
			sent := ToQueue(m)
			got, origin, err := FromQueue(through(t, sent), trusted)
			if err != nil || origin != FromSender {
				t.Errorf("origin %d, %v", origin, err)
			}
			if diff := cmp.Diff(m, got, whole()); diff != "" {
				t.Errorf("message (-sent +received):\n%s", diff)
			}
			if len(sent.Attributes) > queue.MaxAttributes-1 {
				t.Errorf("%d attributes leave no room for a reason", len(sent.Attributes))
			}
		})
	}
}

func TestGroupsOfTwoStreamsNeverShareAMessageGroup(t *testing.T) {
	seen := map[string]record.GroupKey{}
	for _, stream := range []string{"a", "a.b", strings.Repeat("s", record.MaxStreamName)} {
		for _, group := range []string{"", "g", "b/g", "~g", "ü", strings.Repeat("x", 256), strings.Repeat("x", 255), fifoGroup(record.GroupKey{Stream: "a", Group: "ü"})[2:]} {
			key := record.GroupKey{Stream: stream, Group: group}
			name := fifoGroup(key)
			if !queue.ValidGroup(name) {
				t.Errorf("no queue takes %q", name)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%v and %v share %q", key, other, name)
			}
			seen[name] = key
		}
	}
}

func TestAGroupThatAQueueAcceptsCanBeReadInItsMessageGroup(t *testing.T) {
	for group, readable := range map[string]bool{"customer-17": true, "": true, "~x": false, "ü": false} {
		if got := fifoGroup(record.GroupKey{Stream: "orders", Group: group}); (got == "orders/"+group) != readable {
			t.Errorf("group %q of orders is %q", group, got)
		}
	}
}

func TestARedrivenEffectFollowsOnlyThoseOfItsGroupToItsDestination(t *testing.T) {
	numbered := record.Delivery{Identity: "orders/g/1", Stream: "orders", Group: "g", Number: 1}
	later := record.Delivery{Identity: "orders/g/2", Stream: "orders", Group: "g", Number: 2}
	free, other := record.Delivery{Identity: "orders/1", Stream: "orders"}, record.Delivery{Identity: "orders/2", Stream: "orders"}
	if a, b := ToRedelivery("shop", numbered).Group, ToRedelivery("shop", later).Group; a != b {
		t.Errorf("two of one group and destination are in %q and %q", a, b)
	}
	seen := map[string]string{ToTrigger(record.GroupKey{Stream: "orders", Group: "g"}).Group: "trigger"}
	for _, m := range []struct {
		to string
		record.Delivery
	}{{"shop", numbered}, {"ledger", numbered}, {"shop", free}, {"shop", other}, {"ledger", free}} {
		group := ToRedelivery(m.to, m.Delivery).Group
		if before, taken := seen[group]; taken || !queue.ValidGroup(group) {
			t.Errorf("%s to %s stands in message group %q, behind %s", m.Identity, m.to, group, before)
		}
		seen[group] = m.Identity + " to " + m.to
	}
}

func TestADeduplicationIDIsNewForEverySend(t *testing.T) {
	m := full()
	if a, b := ToQueue(m), ToQueue(m); a.DedupID == "" || a.DedupID == b.DedupID {
		t.Errorf("%q and %q", a.DedupID, b.DedupID)
	}
}

// fill sets every field to a different value that is not zero.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
			*at = sentAt.Add(time.Duration(*n) * time.Second)
			return
		}
		for _, field := range v.Fields() {
			fill(t, field, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n)
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text-" + strconv.Itoa(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

func TestEveryFieldOfAnEffectSurvivesItsQueues(t *testing.T) {
	var sent record.Delivery
	n := 0
	fill(t, reflect.ValueOf(&sent).Elem(), &n)
	sent.Committed, sent.Redriven = time.Time{}, false // the publisher sets them
	trigger, err := FromTrigger(through(t, ToRedelivery("shop", sent)))
	if err != nil || trigger.To != "shop" {
		t.Fatalf("%+v, %v", trigger, err)
	}
	if diff := cmp.Diff(&sent, trigger.Delivery); diff != "" {
		t.Errorf("redelivery (-sent +received):\n%s", diff)
	}
	letter, err := FromDeadLetter(through(t, ToDeadLetter(record.Refused{Delivery: &sent, To: "shop", Reason: record.ReasonGone}, queue.MaxSize)), trusted)
	if err != nil || letter.To != "shop" {
		t.Fatalf("%+v, %v", letter, err)
	}
	if diff := cmp.Diff(&sent, letter.Delivery); diff != "" {
		t.Errorf("dead letter (-sent +received):\n%s", diff)
	}
}

func TestEveryFieldOfAMessageSurvivesItsQueues(t *testing.T) {
	var sent record.Message
	n := 0
	fill(t, reflect.ValueOf(&sent).Elem(), &n)
	sent.Try = 0 // the number of the delivery, which is no part of the message
	body := sent.Body
	for _, void := range []bool{true, false} { // a void message has no body and ends no log
		if sent.Void, sent.End, sent.Body = void, !void, body; void {
			sent.Body = nil
		}
		got, _, err := FromQueue(through(t, ToQueue(sent)), trusted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("message (-sent +received):\n%s", diff)
		}
	}
	letter, err := FromDeadLetter(through(t, ToDeadLetter(record.Refused{Message: sent, Reason: record.ReasonHandler}, queue.MaxSize)), trusted)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, letter.Message); diff != "" {
		t.Errorf("dead letter (-sent +received):\n%s", diff)
	}
}

func TestATriggerIsDecodedAsItWasEncoded(t *testing.T) {
	for _, group := range []string{"", "g", "ü \uFFFF/~", strings.Repeat("x", 256)} {
		key := record.GroupKey{Stream: "orders", Group: group}
		got, err := FromTrigger(through(t, ToTrigger(key)))
		if err != nil || got != (Trigger{Group: key}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, body := range []string{"", "{}", "null", "[]", `{"publish":{"stream":""}}`, `{"deliver":{}}`, `{"deliver":{"to":"shop","delivery":{"stream":"s"}}}`, `{"deliver":{"delivery":{"identity":"s/g/1"}}}`, `{"publish":{"stream":"s"},"deliver":{"to":"x"}}`} {
		var invalid *record.InvalidError
		if _, err := FromTrigger(&queue.Delivery{Message: queue.Message{Body: body}}); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestDependenciesAreAStructuredFieldDictionary(t *testing.T) {
	for text, want := range map[string]map[string]uint64{
		"":                            nil,
		"a=1":                         {"a": 1},
		"a=1, b=2;p=x ,\tc=\"3\"":     {"a": 1, "b": 2, "c": 3},
		"*53ource*201=5":              {"Source 1": 5},
		`a="18446744073709551615"`:    {"a": 1<<64 - 1},
		"a=1, a=2":                    {"a": 2},
		"sensor-1.x_y=12, *2a=1":      {"sensor-1.x_y": 12, "*": 1},
		"*31st=1":                     {"1st": 1},
		"*c3*bc=999999999999999, z=1": {"ü": 999999999999999, "z": 1},
	} {
		got, err := ParseDependsOn([]string{text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"a", "a=0", "a=-1", "a=1.0", "A=1", "a=(1 2)", "a=x", "a=1,", "*5=1", "*=1", "*zz=1", `a="x"`, "a=?1", "a=1000000000000000"} {
		var invalid *record.InvalidError
		if got, err := ParseDependsOn([]string{text}); !errors.As(err, &invalid) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := ParseDependsOn([]string{"a=1", "b=2"}); err != nil || len(got) != 2 {
		t.Errorf("two lines: %v, %v", got, err)
	}
}

func TestADependencyWithoutASourceOrANumberIsLeftOut(t *testing.T) {
	if got := formatDependsOn(map[string]uint64{"": 1, "a": 2, "b": 0, "c": 3}); got != "a=2, c=3" {
		t.Errorf("got %q", got)
	}
}

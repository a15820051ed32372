package deployed_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
)

func numbered(n uint64) record.Message {
	return record.Message{Stream: "chat", Group: "room", Source: "ann", Sequence: n, Body: []byte("hello")}
}

func TestShowReadsTheRecordsOfTheFunctions(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("o-1", ann), numbered(3))
	g, err := w.system.Group(t.Context(), "orders", "customer-7")
	if err != nil || g.Version != 1 || len(g.Pending) != 1 || g.Pending[0].ID != "o-1" {
		t.Errorf("group: %+v, %v", g, err)
	}
	g, err = w.system.Group(t.Context(), "chat", "room")
	if err != nil || g.Held != 1 || len(g.Sources) != 1 || g.Sources[0].Source != "ann" || g.Sources[0].Principal != "" {
		t.Errorf("held: %+v, %v", g, err)
	}
	groups, err := w.system.Groups(t.Context(), admin.GroupsOptions{Stream: "orders"})
	if err != nil || len(groups) != 1 || groups[0].Group != "customer-7" {
		t.Errorf("groups: %+v, %v", groups, err)
	}
	stats, err := w.system.Stats(t.Context())
	if err != nil || stats.Pending != 1 || stats.Held != 1 || len(stats.Queues) != 8 || stats.Idle {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	w.publish(t)
	m, err := w.system.Message(t.Context(), "orders", "o-1")
	if err != nil || m.Status != "done" || m.Group != "customer-7" {
		t.Errorf("message: %+v, %v", m, err)
	}
}

func TestShowOfAStackSaysWhatTheRecordsKnowOfAWaitAndFindsHashes(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("o-1", ann), order("o-2", ann), numbered(3))
	for _, id := range []string{"o-1", "o-2"} { // the second waits behind the first
		message := order(id, ann)
		m, err := w.system.ByHash(t.Context(), admin.HashOptions{Hash: message.Hash()})
		if err != nil || m.ID != id || m.Status != "committed" || len(m.Waiting) != 1 || m.Waiting[0].For != admin.WaitDestination || m.Waiting[0].ID != "o-1" || m.Waiting[0].Destination == "" {
			t.Errorf("%s: %+v, %v", id, m, err)
		}
	}
	g, err := w.system.Group(t.Context(), "chat", "room")
	if err != nil || len(g.Waiting) != 1 || g.Waiting[0].For != admin.WaitNumber || g.Waiting[0].Sequence != 1 || g.Waiting[0].Since == nil {
		t.Errorf("held: %+v, %v", g.Waiting, err)
	}
	o, held := order("o-1", ann), numbered(3)
	for _, want := range []struct {
		message    record.Message
		id, status string
	}{{held, "ann/0/3", "held"}} {
		m, err := w.system.ByHash(t.Context(), admin.HashOptions{Hash: want.message.Hash()})
		if err != nil || m.ID != want.id || m.Status != want.status || m.Hash != want.message.Hash() || len(m.Waiting) != 1 {
			t.Errorf("%s: %+v, %v", want.id, m, err)
		}
	}
	w.publish(t)
	m, err := w.system.ByHash(t.Context(), admin.HashOptions{Stream: "orders", Hash: o.Hash()})
	if err != nil || m.ID != "" || m.Status != "done" || m.Group != "customer-7" {
		t.Errorf("done: %+v, %v", m, err)
	}
}

func TestAMessageIsLookedUpUnderItsPrincipal(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("by-ann", ann), order("by-bob", "iam:bob"), order("by-sqs", ""))
	w.publish(t)
	for id, found := range map[string]bool{"by-ann": true, "by-bob": false, "by-sqs": true} {
		_, err := w.system.Message(t.Context(), "orders", id)
		if found != (err == nil) || err != nil && !errors.Is(err, admin.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	bob := "iam:bob"
	system, err := w.stack.System(deployed.SystemOptions{Config: w.config, Principal: &bob})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := system.Message(t.Context(), "orders", "by-bob"); err != nil {
		t.Error(err)
	}
	if _, err := system.Message(t.Context(), "nowhere", "x"); !errors.Is(err, admin.ErrNotFound) || !strings.Contains(err.Error(), "--config") {
		t.Errorf("another configuration: %v", err)
	}
	if _, err := system.Groups(t.Context(), admin.GroupsOptions{Stream: "nowhere"}); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("another configuration: %v", err)
	}
	if _, err := system.Group(t.Context(), "orders", "nobody"); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("an unknown group: %v", err)
	}
}

func TestTheCallersPrincipalIsThatOfTheAPI(t *testing.T) {
	aws := stacktest.Start(t)
	aws.Outputs, aws.ARN = complete(), "arn:aws:sts::1:assumed-role/Operator/ann"
	s, err := deployed.Open(t.Context(), deployed.Options{Name: "Once"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Principal(t.Context()); got != "iam:arn:aws:sts::1:assumed-role/Operator" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

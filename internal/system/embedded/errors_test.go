package embedded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

func TestACallerGetsTheReasonOfARejectionAndNotItsError(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	handler := func(_ context.Context, _ *record.Attempt, _ record.Message) error {
		return &record.RejectError{Detail: "no such reservation\x1b[2J " + strings.Repeat("é", 1000), Err: errors.New("password=secret")}
	}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	defer r.stop()
	_, err := r.client.Send(t.Context(), client.Message{Stream: "orders", Key: "x1", Body: []byte("1"), Wait: time.Minute})
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Type != client.Rejected {
		t.Fatalf("answer: %v", err)
	}
	for where, detail := range map[string]string{"the waiting caller": refused.Detail, "the look-up": lookUp(t, r, "x1").Detail} {
		if !strings.HasPrefix(detail, `no such reservation\x1b[2J éé`) || len(detail) > 500 || strings.Contains(detail, "secret") {
			t.Errorf("%s reads %q", where, detail)
		}
	}
	if info, err := r.Message(t.Context(), "orders", "x1"); err != nil || !strings.HasPrefix(info.Detail, "no such reservation") {
		t.Errorf("an operator reads %+v, %v", info, err)
	}
}

func lookUp(t *testing.T, r *running, id string) client.Status {
	t.Helper()
	status, err := r.client.Status(t.Context(), "orders", id)
	if err != nil {
		t.Fatal(err)
	}
	return status
}

func TestTheErrorForAnUnknownStreamNamesTheExistingOnes(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: strings.Replace(forwarding, "orders:", "pay: {}\n  orders:", 1)}
	r := p.start()
	defer r.stop()
	_, err := r.client.Send(t.Context(), client.Message{Stream: "ordrs", Key: "x1", Body: []byte("1")})
	var refused *client.Problem
	if want := `There is no stream "ordrs" here. There are: orders, pay.`; !errors.As(err, &refused) || refused.Detail != want {
		t.Errorf("answer: %v, want %s", err, want)
	}
}

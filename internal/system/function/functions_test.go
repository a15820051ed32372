package function

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// peace injects no faults.
func peace(invoke invoker) invoker { return invoke }

// war delivers every fourth batch twice, and kills every fourth function at some time within its
// work, or before it has begun; killed counts the kills.
func war(killed *atomic.Int64) func(invoker) invoker {
	var n atomic.Int64
	return func(invoke invoker) invoker {
		return func(ctx context.Context, event []byte) ([]byte, error) {
			i := n.Add(1)
			switch i % 4 {
			case 0:
				if _, err := invoke(ctx, event); err != nil {
					return nil, err
				}
			case 2:
				limited, cancel := context.WithTimeout(ctx, time.Duration(1+i*7%20)*time.Millisecond)
				defer cancel()
				answer, err := invoke(limited, event)
				if err != nil {
					killed.Add(1)
				}
				return answer, err
			}
			return invoke(ctx, event)
		}
	}
}

func TestTheDeployedFunctionsDeliverEachMessageOnce(t *testing.T) {
	deliverOnce(t, deploy(t, peace))
}

func TestKillsAndDuplicatesChangeNothing(t *testing.T) {
	var killed atomic.Int64
	deliverOnce(t, deploy(t, war(&killed)))
	if killed.Load() == 0 {
		t.Error("nothing was killed")
	}
	t.Logf("%d functions killed", killed.Load())
}

func deliverOnce(t *testing.T, d *deployment) {
	t.Helper()
	const messages = 10
	want := map[string][]string{}
	for round := range 3 { // each message three times
		for i := range messages {
			body := fmt.Sprintf("order-%02d", i)
			d.accepted(t, "orders", body, map[string]string{"Idempotency-Key": fmt.Sprintf("%q", body), "Once-Group": fmt.Sprint("g", i%3)})
			d.accepted(t, "tokens", "token-"+body, map[string]string{"Idempotency-Key": fmt.Sprintf("%q", body)})
			if round == 0 {
				want["shop"] = append(want["shop"], body, "token-"+body)
				want["bank"] = append(want["bank"], body) // through the stream payments
			}
		}
	}
	for _, n := range []int{3, 1, 5, 2, 4, 1} {
		d.accepted(t, "payments", fmt.Sprint("payment-", n), map[string]string{"Once-Source": "till", "Once-Sequence": fmt.Sprint(n)})
	}
	total := 3*messages + 5
	got := d.webhook.wait(t, total)
	payments := slices.DeleteFunc(slices.Clone(got["bank"]), func(body string) bool { return !strings.HasPrefix(body, "payment-") })
	if d := cmp.Diff([]string{"payment-1", "payment-2", "payment-3", "payment-4", "payment-5"}, payments); d != "" {
		t.Errorf("order of numbered messages (-want +got):\n%s", d)
	}
	want["bank"] = append(want["bank"], payments...)
	for _, bodies := range []map[string][]string{want, got} {
		for _, name := range slices.Collect(maps.Keys(bodies)) {
			slices.Sort(bodies[name])
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
	d.settled(t)
	if len(d.webhook.firsts) > 0 {
		t.Errorf("%d deliveries too many", len(d.webhook.firsts))
	}
	if status, answer := d.post(t, "orders", "another", map[string]string{"Idempotency-Key": `"order-00"`, "Once-Group": "g0"}); status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the same key: %d %s", status, answer)
	}
}

func TestMessagesRefusedByTheFunctionsGoToTheDeadLetterQueue(t *testing.T) {
	d := deploy(t, peace)
	sent := d.queues[environment.IngressQueue].Send(t.Context(), []queue.Message{{Body: "lost", Attributes: map[string]string{"once-stream": "unknown", "once-id": "1"}}})
	if sent[0].Err != nil {
		t.Fatal(sent[0].Err)
	}
	for range 60 {
		got, err := d.queues[environment.DeadQueue].Receive(t.Context(), 1, time.Minute, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			continue
		}
		if got[0].Body != "lost" || got[0].Attributes["once-reason"] == "" || got[0].Attributes["once-id"] != "1" {
			t.Errorf("dead letter %+v", got[0])
		}
		return
	}
	t.Error("nothing came to the dead-letter queue")
}

func TestAProgramWithHandlersReplacesTheProcessFunction(t *testing.T) {
	d := deployProcess(t, "lambda", peace)
	for range 3 {
		d.accepted(t, "orders", `{"item":"tea"}`, map[string]string{"Idempotency-Key": "o-1", "Once-Group": "ada"})
	}
	d.accepted(t, "orders", `{"item":"cake"}`, map[string]string{"Idempotency-Key": "o-2", "Once-Group": "ada"})
	want := map[string][]string{"shop": {`{"orders":1}`, `{"orders":2}`}}
	if diff := cmp.Diff(want, d.webhook.wait(t, 2)); diff != "" {
		t.Error(diff)
	}
	d.settled(t)
	status, answer := d.post(t, "orders", `{"item":"tea"}`, map[string]string{"Idempotency-Key": "o-1", "Once-Group": "ada", "Prefer": "wait=10"})
	if status != http.StatusCreated || answer != `{"orders":1}` {
		t.Errorf("a duplicate is answered with %d %s, not with the handler's reply", status, answer)
	}
}

func TestAFunctionWithoutItsEnvironmentExitsWithAnError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	i := host.New(bootstrap(t, "process"), host.Options{Env: []string{environment.Config + "=" + webhookConfig}, Output: &log})
	_, err := i.Invoke(t.Context(), []byte(`{}`))
	if !errors.Is(err, host.ErrExited) || !strings.Contains(log.String(), environment.GroupsTable) {
		t.Errorf("got %v and the log %q", err, log.String())
	}
}

package embedded_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// While a webhook takes the effect of a message, another message changes how long the record of the
// group is kept.
func TestARecordIsKeptAsLongAsItsLastCommitSaysAlthoughItsPublisherBeganBefore(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		first, second string // the states that the messages leave
		want          time.Duration
	}{
		"a state was deleted": {"1", "", 30 * day},
		"a state was written": {"", "1", 90 * day},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				net := &memnet.Network{}
				called, answer := make(chan struct{}), make(chan struct{})
				hook := net.Serve(&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					called <- struct{}{}
					<-answer
				})})
				defer hook.Close()
				text := "destinations: {hook: {webhook: \"" + hook.URL + "\"}}\nstreams: {accounts: {destinations: [hook], state: {retain: 90d}}}\n"
				p := &place{t: t, dir: t.TempDir(), net: net, config: text}
				r := p.start(system.Stream{Stream: record.Stream{Name: "accounts", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
					if a.State = []byte(c.second); m.ID == "first" {
						a.State = []byte(c.first)
						a.Send(record.Effect{To: []string{"hook"}, Body: m.Body})
					}
					return nil
				}}})
				r.send(t, client.Message{Stream: "accounts", Key: "first", Group: "g"})
				<-called
				r.send(t, client.Message{Stream: "accounts", Key: "second", Group: "g"})
				synctest.Wait()
				close(answer)
				r.idle(t)
				g, err := r.Group(t.Context(), "accounts", "g")
				if err != nil {
					t.Fatal(err)
				}
				if g.Version != 2 || g.Expires == nil || g.Expires.Before(time.Now().Add(c.want-day)) || g.Expires.After(time.Now().Add(c.want)) {
					t.Errorf("version %d expires %v, want %v from now on", g.Version, g.Expires, c.want)
				}
				r.stop()
			})
		})
	}
}

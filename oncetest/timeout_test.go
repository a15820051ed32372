package oncetest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

func TestTheContextOfAHandlerEndsAfterItsTimeout(t *testing.T) {
	for want, c := range map[time.Duration]once.StreamConfig{10 * time.Second: {}, time.Minute: {Timeout: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			sys := oncetest.New()
			sys.Declare("orders", c)
			once.Handle(sys.System, "orders", func(ctx context.Context, _ *once.Attempt[once.Stateless], _ once.Message) error {
				<-ctx.Done()
				return ctx.Err()
			})
			begun := time.Now()
			out := sys.Call(t.Context(), once.Message{Stream: "orders", ID: "1"})
			if took := time.Since(begun); took != want || out.Kind != once.Retry || !strings.Contains(out.Err.Error(), "longer than its timeout of "+want.String()) {
				t.Errorf("%+v after %v, want a failure after %v", out, took, want)
			}
		})
	}
}

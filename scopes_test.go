package once_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

// A stream, a decorated handler and the middleware share one store here, and one identity: the
// stream's name and "1".
func TestAStreamADecoratorAndTheMiddlewareDoNotShareTokens(t *testing.T) {
	for name, decorate := range decorators {
		t.Run(name, func(t *testing.T) {
			sys := oncetest.New()
			streamed, guarded, requests := 0, 0, 0
			once.Handle(sys.System, "hits", func(context.Context, *once.Attempt[counter], once.Message) error {
				streamed++
				return nil
			})
			h := decorate(sys.Tokens(), func(context.Context, once.Message) (once.Reply, error) {
				guarded++
				return once.Reply{}, nil
			}, once.GuardConfig{})
			front := once.Middleware(sys.Tokens(), once.MiddlewareConfig{Name: "hits"})(counting(&requests))

			for range 2 { // the second round finds duplicates everywhere
				sys.Process(t.Context(), hit("1"))
				if _, err := h(t.Context(), hit("1")); err != nil {
					t.Errorf("decorated handler: %v", err)
				}
				if answer := serve(front, post("1", "")); answer.Code != http.StatusCreated {
					t.Errorf("middleware: %d %s", answer.Code, answer.Body)
				}
			}
			if streamed != 1 || guarded != 1 || requests != 1 {
				t.Errorf("the stream's handler ran %d times, the decorated one %d, the one behind the middleware %d; want once each", streamed, guarded, requests)
			}
		})
	}
}

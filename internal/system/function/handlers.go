package function

import (
	"fmt"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/handler"
	lambdahandler "github.com/effectively-once/once/internal/handler/lambda"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// handlers returns how a function opens the configured handlers of streams. The publish function
// opens none: it runs no handler, and needs neither their secrets nor the permission to invoke
// them.
func (c Clients) handlers(function Function) func(stream string, h config.Handler, shared pipeline.OpenHandler) (handler.Caller, error) {
	return func(_ string, h config.Handler, shared pipeline.OpenHandler) (handler.Caller, error) {
		switch {
		case function == Publish:
			return nil, nil
		case h.Kind() == config.HandlerLambda:
			return lambdahandler.New(c.Lambda, h.Lambda)
		case h.Kind() == config.HandlerURL:
			return shared()
		}
		return nil, fmt.Errorf("%s %s", h.Kind(), h.Where())
	}
}

package telemetry

import (
	"context"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Invoke makes a function report at the end of each call, even if it fails or panics: after a panic
// the runtime ends the process, and unreported counts would be lost. If t is nil, nothing is
// reported.
func Invoke[In, Out any](t *Telemetry, handler func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	if t == nil {
		return handler
	}
	return func(ctx context.Context, in In) (Out, error) {
		defer t.begin(ctx)()
		return handler(ctx, in)
	}
}

// begin records the request for the log, until end is called.
func (t *Telemetry) begin(ctx context.Context) (end func()) {
	attributes := map[string]string{}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		attributes[attrRequestID] = lc.AwsRequestID
	}
	if name := lambdacontext.FunctionName; name != "" {
		attributes[attrFunction] = name
	}
	forget := func() {}
	if h, ok := t.options.Log.Handler().(*logHandler); ok {
		forget = h.running.enter(attributes[attrRequestID])
	}
	return func() {
		defer forget()
		t.Flush(ctx, attributes)
	}
}

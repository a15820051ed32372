package handler

import "context"

// Limits of one call, in bytes.
const (
	// MaxRequest is the largest request with several messages. It is less than the 6 MB that AWS
	// Lambda takes. A request with one message may be larger.
	MaxRequest = 4 << 20
	// MaxAnswer is the largest answer: as much as AWS Lambda returns.
	MaxAnswer = 6 << 20
)

// A Caller sends requests to a handler.
type Caller interface {
	// Call sends an encoded [Request] to the handler and returns its answer, which is not checked
	// yet. The attempt is that of the request; it is unique to the call. Any error means that the
	// handler may or may not have run, and that nothing of it counts. Call may be called
	// concurrently. It returns soon after ctx has ended. If the handler answered with an error, the
	// error says so in the handler's words.
	Call(ctx context.Context, attempt string, request []byte) (answer []byte, err error)
}

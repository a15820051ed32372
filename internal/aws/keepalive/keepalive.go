// Package keepalive works around an SDK bug that closes connections too early.
package keepalive

import (
	"context"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// AddTo hides the WriteTo method of request bodies. The SDK closes a request's body as
// soon as the head of the response has arrived. If the connection's writer is late, it finds a
// closed body, whose WriteTo returns io.EOF instead of nil. net/http treats that as a failed write
// and closes the connection, with the rest of the response on it. The request was processed, its
// response is lost, and the SDK retries; this happens most easily with a large response and little
// processor time. Reading a closed body just ends. See
// https://github.com/aws/aws-sdk-go-v2/issues/2737.
func AddTo(stack *middleware.Stack) error {
	return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("KeepConnections", func(
		ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler,
	) (middleware.SerializeOutput, middleware.Metadata, error) {
		if request, ok := in.Request.(*smithyhttp.Request); ok {
			if stream, ok := request.GetStream().(io.ReadSeeker); ok {
				read, err := request.SetStream(struct{ io.ReadSeeker }{stream})
				if err != nil {
					return middleware.SerializeOutput{}, middleware.Metadata{}, err
				}
				*request = *read
			}
		}
		return next.HandleSerialize(ctx, in)
	}), middleware.After)
}

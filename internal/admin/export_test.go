package admin

import (
	"context"
	"net"
	"net/http"
)

// Through makes a client connect in another way.
func (c *Client) Through(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.http.Transport.(*http.Transport).DialContext = dial
}

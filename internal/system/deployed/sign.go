package deployed

import (
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/aws/sign"
)

// Signer returns a signer with the credentials of the stack's caller. It keeps up to 100
// connections.
func (s *Stack) Signer() *sign.Signer {
	next := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 100, MaxIdleConnsPerHost: 100,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
	}
	return sign.New(s.config.Credentials, s.Region, next)
}

package access

import (
	"reflect"

	"github.com/effectively-once/once/internal/config"
)

// Next returns the access by other settings, which replaces a. It keeps the issuer and the rates of
// callers, if their settings have not changed. If there is an error, a stays in use. Otherwise the
// caller calls [Access.Replaced] on a.
func (a *Access) Next(c *config.Server, streams []string) (*Access, error) {
	o := a.options
	o.Config, o.Streams = c, streams
	next := &Access{options: o, limiter: a.limiter, noted: a.noted}
	if !reflect.DeepEqual(a.options.Config.Rate, c.Rate) {
		next.limiter = newLimiter(c.Rate, o.Now)
	}
	if err := next.Reload(); err != nil {
		return nil, err
	}
	switch {
	case c.Auth == nil || c.Auth.OIDC == nil:
	case a.issuer != nil && *a.options.Config.Auth.OIDC == *c.Auth.OIDC:
		next.issuer = a.issuer
	default:
		next.issuer = openIssuer(*c.Auth.OIDC, &o)
	}
	return next, nil
}

// Replaced closes the issuer, unless the next access uses it. Requests that last are checked by the
// next access from now on.
func (a *Access) Replaced(next *Access) {
	a.next.Store(next)
	if a.issuer != nil && a.issuer != next.issuer {
		a.issuer.close()
	}
}

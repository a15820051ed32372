package embedded

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/problem"
)

// guarded refuses what a page in a browser could send to a listener on this machine: requests from
// another origin, and requests whose Host is a name that is not this server's. Such a name may
// belong to an attacker, who points it at this machine (DNS rebinding). An address in the Host
// can't be rebound, so it is always allowed.
//
// The pages of some origins may call nevertheless, except for the console, which does not let them.
func guarded(next http.Handler, allowed, origins []string, denied func(reason string)) http.Handler {
	protection := http.NewCrossOriginProtection()
	for _, origin := range origins {
		_ = protection.AddTrustedOrigin(origin) // an origin that is none matches no request
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		denied(access.DeniedOrigin)
		detail := "The request comes from a web page of another origin, which may not call this server. Under once serve, " +
			"add the origin to server.cors.origins of the configuration. Otherwise send the request from a program, " +
			"or serve the page and this server under one origin by a proxy, and allow its host name with --allow-host NAME"
		problem.New(problem.Forbidden, detail).Write(w, "")
	}))
	same := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := hostName(r.Host); !ownName(name, allowed) {
			denied(access.DeniedHost)
			detail := fmt.Sprintf("The Host %.100q is not a name of this server. Call it by its address, or start it with --allow-host NAME; under once serve, server.hosts of the configuration has the names, too", name)
			problem.New(problem.Forbidden, detail).Write(w, "")
			return
		}
		same.ServeHTTP(w, r)
	})
}

// hostName returns a Host or a listen address without its port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// ownName reports whether a host name is this server's. An empty name is allowed: only HTTP/1.0
// requests have none, and browsers do not send those.
func ownName(name string, allowed []string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(allowed, name)
}

// AllowedHosts returns a function that reports whether the Host of a request to a listener is an
// address, localhost, the host of the listen address, or one of further names. Another name may be
// one that an attacker points at this machine (DNS rebinding). It does not allow an empty Host.
func AllowedHosts(listen string, further []string) func(host string) bool {
	o := Options{Listen: listen, AllowHosts: further}
	names := o.names()
	return func(host string) bool {
		name := hostName(host)
		return name != "" && ownName(name, names)
	}
}

// names returns the host names of the listener: the host of the listen address, and the names that
// the operator allows.
func (o *Options) names() []string {
	names := []string{hostName(o.Listen)}
	for _, name := range o.AllowHosts {
		names = append(names, hostName(name))
	}
	return names
}

package main

import (
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// A network connects the regions: it is a proxy that takes a while, and that can cut a region
// off. A region reaches another one at /FROM/TO.
type network struct {
	latency time.Duration

	mu    sync.Mutex
	hosts map[string]*url.URL
	off   map[string]bool
}

func newNetwork(latency time.Duration) *network {
	return &network{latency: latency, hosts: map[string]*url.URL{}, off: map[string]bool{}}
}

func (n *network) add(region, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[region] = &url.URL{Scheme: "http", Host: address}
}

// cut cuts a region off from all others, or ends that.
func (n *network) cut(region string, off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off[region] = off
}

// cutOff lists the regions that are cut off.
func (n *network) cutOff() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(func(yield func(string) bool) {
		for region := range maps.Keys(n.off) {
			if n.off[region] && !yield(region) {
				return
			}
		}
	})
}

// way returns the address of a region, or nil if nothing passes.
func (n *network) way(from, to string) *url.URL {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off[from] || n.off[to] {
		return nil
	}
	return n.hosts[to]
}

// ServeHTTP passes a request on. If a region is cut off, the connection is closed without an
// answer, before the request is passed or after it.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, to := r.PathValue("from"), r.PathValue("to")
	time.Sleep(n.latency)
	target := n.way(from, to)
	if target == nil {
		panic(http.ErrAbortHandler)
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Path, p.Out.URL.RawPath = "/"+r.PathValue("path"), ""
			p.SetURL(target)
		},
		ModifyResponse: func(*http.Response) error {
			time.Sleep(n.latency)
			if n.way(from, to) == nil {
				panic(http.ErrAbortHandler)
			}
			return nil
		},
	}
	proxy.ServeHTTP(w, r)
}

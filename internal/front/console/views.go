package console

import (
	"net/http"
	"sync"
	"time"
)

const (
	// remoteRenewal is the time between two looks at a page of a system elsewhere.
	remoteRenewal = 15 * time.Second
	// kept is how long the data of such a page is used again: by several browsers, and if a page is
	// loaded again.
	keptFor = 5 * time.Second
	// maxKept is how many pages are kept.
	maxKept = 100
)

// views are the pages of a system elsewhere that were made just now.
type views struct {
	mu     sync.Mutex
	byPage map[string]*keptView
}

// A keptView is the data of a page. Its lock is held while the page is made, so that callers at the
// same time share the answer.
type keptView struct {
	mu   sync.Mutex
	view view
	at   time.Time // zero before it is made, and if that failed
}

// kept returns a page that is made at most every [keptFor], if the system is elsewhere.
func (c *console) kept(p page) page {
	if c.Remote == nil {
		return p
	}
	return func(r *http.Request) (view, error) {
		k := c.views.get(r.URL.Path + "?" + r.URL.Query().Encode())
		k.mu.Lock()
		defer k.mu.Unlock()
		if age := c.Now().Sub(k.at); age >= 0 && age < keptFor {
			return k.view, nil
		}
		v, err := p(r)
		if err != nil {
			return v, err
		}
		k.view, k.at = v, c.Now()
		return v, nil
	}
}

func (v *views) get(page string) *keptView {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.byPage[page]
	if k == nil {
		if v.byPage == nil || len(v.byPage) >= maxKept {
			v.byPage = map[string]*keptView{}
		}
		k = &keptView{}
		v.byPage[page] = k
	}
	return k
}

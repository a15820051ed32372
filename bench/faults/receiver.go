package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// A send is one request to the receiver.
type send struct {
	Body     []byte
	Identity string // webhook-id, or once-id
	Group    string // of numbered sends
	Number   uint64
	Dedup    string // of a first-in-first-out queue
}

// payload is the body of every send.
type payload struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

// sends records the requests, by message.
type sends struct {
	mu sync.Mutex
	of map[string][]send
}

func (s *sends) add(one send) {
	var p payload
	if json.Unmarshal(one.Body, &p) != nil {
		p.ID = "" // about no message: it is counted as such
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[p.ID] = append(s.of[p.ID], one)
}

// about returns the sends about a message.
func (s *sends) about(id string) []send {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[id]
}

// unknown returns the number of sends about no message that was offered.
func (s *sends) unknown(offered []string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, list := range s.of {
		n += len(list)
	}
	for _, id := range offered {
		n -= len(s.of[id])
	}
	return n
}

// serveReceiver accepts a send, or refuses it if that is the fault.
func (t *trial) serveReceiver(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was not sent
	}
	if t.refuse() {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	// absent if sends are not numbered
	number, _ := strconv.ParseUint(r.Header.Get("Once-Number"), 10, 64)
	t.sends.add(send{Body: body, Identity: r.Header.Get("Webhook-Id"), Group: r.Header.Get("Once-Stream") + "/" + r.Header.Get("Once-Group"), Number: number})
	w.WriteHeader(http.StatusNoContent)
}

// admitted returns how many of the sends about one message a receiver processes: one that admits by
// key remembers identities, one that admits by sequence the last number of each group, and a
// first-in-first-out queue deduplication ids.
func admitted(all []send) (byKey, bySequence, byDedup int) {
	keys, dedups, last := map[string]bool{}, map[string]bool{}, map[string]uint64{}
	for _, s := range all {
		if !keys[s.Identity] {
			byKey++
		}
		if !dedups[s.Dedup] {
			byDedup++
		}
		if s.Number > last[s.Group] {
			bySequence++
		}
		keys[s.Identity], dedups[s.Dedup], last[s.Group] = true, true, max(last[s.Group], s.Number)
	}
	return byKey, bySequence, byDedup
}

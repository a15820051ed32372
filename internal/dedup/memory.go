package dedup

import "github.com/effectively-once/once/internal/record"

// A memory holds the items, parts and first plans of a call, so that a later call can use their
// memory again. Nothing in it is used after the call.
type memory struct {
	items []item
	parts []*part // the first ones are in use, the others are for later use
	used  int
}

// borrow returns a memory with n zero items.
func (e *Engine) borrow(n int) *memory {
	m, _ := e.memory.Get().(*memory)
	if m == nil {
		m = &memory{}
	}
	if cap(m.items) < n {
		m.items = make([]item, n)
	}
	m.items = m.items[:n]
	return m
}

// mostParts is how many parts a memory keeps for later use.
const mostParts = 128

// giveBack ends the use of a memory. The caller must not keep a pointer into it.
func (e *Engine) giveBack(m *memory) {
	clear(m.items)
	for _, p := range m.parts[:m.used] {
		items := p.items
		clear(items)
		*p = part{items: items[:0]}
	}
	if len(m.parts) > mostParts {
		clear(m.parts[mostParts:])
		m.parts = m.parts[:mostParts]
	}
	m.used = 0
	e.memory.Put(m)
}

// part returns a part without items.
func (m *memory) part(key record.GroupKey, s record.Stream) *part {
	if m.used == len(m.parts) {
		m.parts = append(m.parts, &part{})
	}
	p := m.parts[m.used]
	m.used++
	p.key, p.stream = key, s
	return p
}

// fewTokens is how many tokens are searched without a map.
const fewTokens = 8

// tokens are tokens by key.
type tokens struct {
	list []record.Token
	at   map[record.TokenKey]int // indexes of list; nil if there are few
}

// tokensOf returns the tokens of a list, whose keys do not repeat, and takes the list over.
func tokensOf(list []record.Token) tokens {
	t := tokens{list: list}
	t.build()
	return t
}

// build makes the index, unless there are few tokens.
func (t *tokens) build() {
	if len(t.list) <= fewTokens {
		return
	}
	t.at = make(map[record.TokenKey]int, len(t.list))
	for i := range t.list {
		t.at[t.list[i].Key] = i
	}
}

// find returns the token of a key, or nil.
func (t *tokens) find(key record.TokenKey) *record.Token {
	if t.at != nil {
		if i, ok := t.at[key]; ok {
			return &t.list[i]
		}
		return nil
	}
	for i := range t.list {
		if t.list[i].Key == key {
			return &t.list[i]
		}
	}
	return nil
}

// get returns the token of a key, or an absent one without a key.
func (t *tokens) get(key record.TokenKey) record.Token {
	if found := t.find(key); found != nil {
		return *found
	}
	return record.Token{}
}

// put adds a token, or replaces the one with its key.
func (t *tokens) put(token record.Token) {
	if found := t.find(token.Key); found != nil {
		*found = token
		return
	}
	t.list = append(t.list, token)
	switch {
	case t.at != nil:
		t.at[token.Key] = len(t.list) - 1
	case len(t.list) > fewTokens:
		t.build()
	}
}

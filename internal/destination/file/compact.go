package file

// maxDepth is how deeply JSON may be nested; encoding/json has the same limit.
const maxDepth = 10000

// plain tells the bytes that stand for themselves in a JSON string of ASCII: not control characters, quote, or backslash.
var plain = func() (t [256]bool) { //nolint:gochecknoglobals // a table
	for b := 0x20; b < 0x80; b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

// appendCompact appends one JSON value without the white space between its parts, and reports whether src, which must be UTF-8, is one; if
// not, dst is unchanged. In one pass it does what json.Valid and json.Compact do, several times as fast; a fuzz test compares them.
func appendCompact(dst, src []byte) ([]byte, bool) {
	c := compactor{src: src, dst: dst}
	ok := c.value(0)
	c.space()
	if !ok || c.pos < len(src) {
		return dst, false
	}
	return append(c.dst, src[c.from:]...), true
}

// A compactor reads src and copies it to dst in the runs between white space: src[from:pos] is read and not copied yet.
type compactor struct {
	src, dst []byte
	pos      int
	from     int
}

// peek gives the next byte, 0 at the end: no part of JSON starts with it.
func (c *compactor) peek() byte {
	if c.pos < len(c.src) {
		return c.src[c.pos]
	}
	return 0
}

// take skips the byte b, if it is next.
func (c *compactor) take(b byte) bool {
	if c.peek() != b {
		return false
	}
	c.pos++
	return true
}

// space leaves white space out.
func (c *compactor) space() {
	if c.pos >= len(c.src) || c.src[c.pos] > ' ' {
		return
	}
	c.dst = append(c.dst, c.src[c.from:c.pos]...)
	for c.take(' ') || c.take('\n') || c.take('\t') || c.take('\r') { //nolint:revive // the condition does the work
	}
	c.from = c.pos
}

func (c *compactor) value(depth int) bool {
	c.space()
	switch c.peek() {
	case '{':
		return depth < maxDepth && c.list('}', depth, c.member)
	case '[':
		return depth < maxDepth && c.list(']', depth, c.value)
	case '"':
		return c.text()
	case 't':
		return c.word("true")
	case 'f':
		return c.word("false")
	case 'n':
		return c.word("null")
	}
	return c.number()
}

// list reads the elements of an object or array.
func (c *compactor) list(end byte, depth int, element func(int) bool) bool {
	c.pos++
	c.space()
	if c.take(end) {
		return true
	}
	for {
		if !element(depth + 1) {
			return false
		}
		c.space()
		if c.take(end) {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// member reads a name and its value.
func (c *compactor) member(depth int) bool {
	c.space()
	if !c.text() {
		return false
	}
	c.space()
	return c.take(':') && c.value(depth)
}

func (c *compactor) word(w string) bool {
	if len(c.src)-c.pos < len(w) || string(c.src[c.pos:c.pos+len(w)]) != w {
		return false
	}
	c.pos += len(w)
	return true
}

func (c *compactor) text() bool {
	if !c.take('"') {
		return false
	}
	for c.pos < len(c.src) {
		b := c.src[c.pos]
		c.pos++
		switch {
		case plain[b] || b >= 0x80:
		case b == '"':
			return true
		case b != '\\' || !c.escape():
			return false
		}
	}
	return false
}

// escape reads what follows a backslash.
func (c *compactor) escape() bool {
	b := c.peek()
	c.pos++
	switch b {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			if !isHex(c.peek()) {
				return false
			}
			c.pos++
		}
		return true
	}
	return false
}

func isHex(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

func (c *compactor) number() bool {
	c.take('-')
	if !c.take('0') && !c.digits() {
		return false
	}
	if c.take('.') && !c.digits() {
		return false
	}
	if c.take('e') || c.take('E') {
		if !c.take('+') {
			c.take('-')
		}
		return c.digits()
	}
	return true
}

// digits reads one or more.
func (c *compactor) digits() bool {
	start := c.pos
	for b := c.peek(); b >= '0' && b <= '9'; b = c.peek() {
		c.pos++
	}
	return c.pos > start
}

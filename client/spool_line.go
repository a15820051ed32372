package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/effectively-once/once/clock"
)

// A spoolLine is one line of the file of a sender, as JSON behind its checksum. It has one of the
// parts.
type spoolLine struct {
	Begin   *spoolBegin   `json:"begin,omitempty"`   // the first line
	Epoch   uint64        `json:"epoch,omitempty"`   // the epoch that the server has issued
	Message *spoolMessage `json:"message,omitempty"` // the message of the next number
	Done    uint64        `json:"done,omitempty"`    // the messages up to this number are acknowledged
}

// spoolBegin says whose file it is, and where its numbers begin.
type spoolBegin struct {
	Version int    `json:"version"`
	Stream  string `json:"stream"`
	Group   string `json:"group"`
	Source  string `json:"source"`
	Epoch   uint64 `json:"epoch,omitempty"`
	// First is the number of the first message in the file.
	First uint64 `json:"first"`
}

// spoolMessage is a message without the fields that belong to its sender.
type spoolMessage struct {
	Number uint64 `json:"number"`
	// Durable is the last message that was durable when this one was written.
	Durable     uint64            `json:"durable,omitempty"`
	Key         string            `json:"key,omitempty"`
	DependsOn   map[string]uint64 `json:"depends_on,omitempty"`
	Parents     []uint64          `json:"parents,omitempty"`
	Seen        clock.Hybrid      `json:"seen,omitzero"`
	End         bool              `json:"end,omitempty"`
	NotBefore   time.Time         `json:"not_before,omitzero"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        []byte            `json:"body,omitempty"`
}

func toSpool(m *Message) *spoolMessage {
	return &spoolMessage{
		Number: m.Sequence, Key: m.Key, DependsOn: m.DependsOn, Parents: m.Parents, Seen: m.Seen, End: m.End, NotBefore: m.NotBefore,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}
}

func (x *spoolMessage) message() Message {
	return Message{
		Sequence: x.Number, Key: x.Key, DependsOn: x.DependsOn, Parents: x.Parents, Seen: x.Seen, End: x.End, NotBefore: x.NotBefore,
		ContentType: x.ContentType, Headers: x.Headers, Body: x.Body,
	}
}

// sumLen is the length of a checksum in front of a line, with the space after it.
const sumLen = 9

func checksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// encode returns the line with its checksum and its end.
func (l spoolLine) encode() ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode line: %w", err)
	}
	line := fmt.Appendf(make([]byte, 0, len(text)+sumLen+1), "%08x ", checksum(text))
	return append(append(line, text...), '\n'), nil
}

var errDamaged = errors.New("the file is damaged")

// decodeLine reads a line without its end.
func decodeLine(line []byte) (l spoolLine, err error) {
	if !hasSum(line) {
		return l, errDamaged
	}
	d := json.NewDecoder(bytes.NewReader(line[sumLen:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, fmt.Errorf("%w, or is of a newer version: %w", errDamaged, err)
	}
	return l, nil
}

// hasSum reports whether a line without its end is whole.
func hasSum(line []byte) bool {
	if len(line) < sumLen || line[sumLen-1] != ' ' {
		return false
	}
	sum, err := strconv.ParseUint(string(line[:sumLen-1]), 16, 32)
	return err == nil && uint32(sum) == checksum(line[sumLen:])
}

// torn reports whether a crash has cut off a write at the end of a file, where a line has no end:
// it is the beginning of a line, or zeros. If it is a whole line with one more byte, it is damaged.
func torn(rest []byte) bool {
	return len(rest) == 0 || !hasSum(rest[:len(rest)-1])
}

// sector is the least that a disk writes, in bytes.
const sector = 512

// lostPower reports whether a power failure has left the line at an offset unreadable, which has an
// end. Lines that were not synced may reach the disk in any order, so a part of them can be
// missing, and be read as zeros, while later lines are there. No message was sent that was not
// synced.
//
// If a later line says that the message which should be at the offset was durable or acknowledged,
// the file is damaged. Damage that turns whole sectors into zeros is not recognised if it is in the
// lines of the last sync.
func lostPower(content []byte, at int64, number uint64) bool {
	lines := bytes.SplitAfter(content[at:], []byte{'\n'})
	if !unwritten(content, int(at), int(at)+len(lines[0])) {
		return false
	}
	for _, line := range lines[1:] {
		l, err := decodeLine(bytes.TrimSuffix(line, []byte{'\n'}))
		if err == nil && (l.Done >= number || l.Message != nil && l.Message.Durable >= number) {
			return false
		}
	}
	return true
}

// unwritten reports whether a part of a file has zeros up to the end of a sector, from its
// beginning or from that of a sector on.
func unwritten(content []byte, from, to int) bool {
	for begin := from; begin < to; begin = (begin/sector + 1) * sector {
		end := min((begin/sector+1)*sector, len(content))
		if end <= to && len(bytes.Trim(content[begin:end], "\x00")) == 0 {
			return true
		}
	}
	return false
}

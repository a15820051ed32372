package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Epochs that the system issues are Unix microseconds, so they are in this range. JSON numbers hold
// them exactly.
const (
	FirstIssuedEpoch uint64 = 1 << 50 // in 2005
	LastIssuedEpoch  uint64 = 1<<53 - 1
)

// EpochIssued reports whether an epoch is one that only the system issues. Senders choose others.
func EpochIssued(epoch uint64) bool { return epoch >= FirstIssuedEpoch && epoch <= LastIssuedEpoch }

// SourcesStream is the reserved stream of the records of sources whose epochs the system issues. No
// configured stream can have this name.
const SourcesStream = "~sources"

// A SourceEpoch is the newest epoch of a source in one group. It is the state of a group record in
// [SourcesStream].
type SourceEpoch struct {
	Principal string `json:"principal,omitempty"`
	Stream    string `json:"stream"`
	Group     string `json:"group"`
	Source    string `json:"source"`
	Epoch     uint64 `json:"epoch"`
}

// NewSourceEpoch returns the source of a message in its group, without an epoch.
func NewSourceEpoch(m *Message) SourceEpoch {
	return SourceEpoch{Principal: m.Principal, Stream: m.Stream, Group: m.GroupName(), Source: m.Source}
}

// Key returns the key of the record. It hashes the names, which are too long for a key together.
func (s SourceEpoch) Key() GroupKey {
	s.Epoch = 0
	text, _ := json.Marshal(s) //nolint:errchkjson // strings and numbers always encode
	sum := sha256.Sum256(text)
	return GroupKey{Stream: SourcesStream, Group: hex.EncodeToString(sum[:])}
}

// State returns the source as the state of its record.
func (s SourceEpoch) State() []byte {
	text, _ := json.Marshal(s) //nolint:errchkjson // strings and numbers always encode
	return text
}

// Read sets the epoch from the record; it is 0 if there is no record.
func (s *SourceEpoch) Read(g *Group) error {
	if g.Version == 0 {
		s.Epoch = 0
		return nil
	}
	var stored SourceEpoch
	if err := json.Unmarshal(g.State, &stored); err != nil || stored.Epoch == 0 || stored.Key() != g.Key {
		return fmt.Errorf("read epoch of a source in group %s: %w", g.Key, ErrCorrupt)
	}
	s.Epoch = stored.Epoch
	return nil
}

// Following returns the epoch to issue next. It is higher than the last one even if the clock has
// gone back, and, if the clock has not, higher than those of a record that has expired.
func (s SourceEpoch) Following(now time.Time) uint64 {
	return max(s.Epoch+1, uint64(max(0, now.UnixMicro())), FirstIssuedEpoch)
}

// Expires returns when the record may be deleted: long after its time and that of its epoch, which
// may be ahead if the clock was.
func (s SourceEpoch) Expires(now time.Time, retention time.Duration) time.Time {
	if at := time.UnixMicro(int64(s.Epoch)); at.After(now) { //nolint:gosec // at most LastIssuedEpoch
		now = at
	}
	return now.Add(retention).Truncate(time.Millisecond).UTC()
}

// A NewerEpochError says that the newest epoch of a source is not the one that a caller knows.
type NewerEpochError struct {
	// Epoch is the newest one; 0 if there is none.
	Epoch uint64
}

func (e *NewerEpochError) Error() string {
	return fmt.Sprintf("the newest epoch of the source is %d", e.Epoch)
}

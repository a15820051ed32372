package record

import (
	"strconv"
	"strings"
)

// A stream with a pool has a fixed number of partitions in place of its senders' groups. The group
// of a message that is placed in one is the number of the partition, this separator and the group
// that the sender named, which may be empty. No name of a sender has the separator in it.
const partitionSeparator = "\x1f"

// InPartition returns the [Message.Group] of a message that is placed in a partition, counted from
// 0. group is the one that the sender named, or empty.
func InPartition(partition uint64, group string) string {
	return PartitionName(partition) + partitionSeparator + group
}

// PartitionName returns the name of the group of a partition.
func PartitionName(partition uint64) string { return strconv.FormatUint(partition, 10) }

// inPartition returns the parts of the group of a message that is placed.
func (m *Message) inPartition() (partition uint64, group string, placed bool) {
	number, group, has := strings.Cut(m.Group, partitionSeparator)
	if !has {
		return 0, "", false
	}
	n, err := strconv.ParseUint(number, 10, 32)
	return n, group, err == nil && PartitionName(n) == number
}

// SenderGroup returns the group that the sender named, or an empty text.
func (m *Message) SenderGroup() string {
	if _, group, placed := m.inPartition(); placed {
		return group
	}
	return m.Group
}

// Placed reports whether the message is placed in a partition.
func (m *Message) Placed() bool {
	_, _, placed := m.inPartition()
	return placed
}

// Place places a message of a stream with partitions, unless it is placed already. The partition
// depends on the group; if the sender named none, on the source or the id. The messages of a
// numbered source are in one partition, because its numbers are counted there: so it can have no
// groups. Place returns an [*InvalidError].
func (s Stream) Place(m *Message) error {
	if partition, _, placed := m.inPartition(); placed {
		if partition < s.Partitions {
			return nil
		}
		return &InvalidError{"group", "must be UTF-8 text without control characters"}
	}
	switch {
	case s.Partitions == 0:
		return nil
	case s.Admission == BySequence && m.Group != "" && m.Route == "":
		return &InvalidError{"group", "must not be given: a source of this stream counts its messages once for all groups"}
	case m.End:
		return &InvalidError{"end", "must not be given: the logs of this stream end together"}
	case len(m.Parents) > 0:
		return &InvalidError{"parents", "must not be given: the entries of this stream are in several logs"}
	}
	partition := uint64(0)
	if s.Partitions > 1 {
		partition = hashName(m.GroupName()) % s.Partitions
	}
	m.Group = InPartition(partition, m.Group)
	return nil
}

// hashName returns the FNV-1a hash of a name, mixed so that its low bits depend on all of it.
func hashName(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

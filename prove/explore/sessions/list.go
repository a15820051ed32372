package sessions

// Scenarios returns the scenarios, which are small enough to visit all of their states.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "one-consumer", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Lost: 2, Late: 1},
		{Name: "one-consumer-database", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Lost: 2, Late: 1, Database: true},
		{Name: "one-consumer-dead", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Lost: 1, Late: 1, Database: true, DeadLetters: true, Fails: 1},
		{Name: "two-consumers", Entries: []int{1}, Consumers: []string{"a", "a"}, Window: 1, Lost: 1},
		{Name: "conflicts", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1},
		{Name: "conflicts-database", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Database: true},
		{Name: "retire", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Lost: 1},
		{Name: "retire-late", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Late: 1},
		{Name: "retire-database", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Lost: 1, Database: true},
		{Name: "retire-database-late", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Late: 1, Database: true},
		{Name: "retire-dead", Entries: []int{2}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 2, Direct: true, DeadLetters: true, Fails: 1, Lost: 1},
		{Name: "retire-database-dead", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Database: true, DeadLetters: true, Fails: 1, Lost: 1},
		{Name: "two-consumers-two", Entries: []int{2}, Consumers: []string{"a", "a"}, Window: 2, Direct: true},
		{Name: "two-consumers-dead", Entries: []int{1}, Consumers: []string{"a", "a"}, Window: 1, Direct: true, DeadLetters: true, Fails: 1, Lost: 1, Late: 1},
		{Name: "three", Entries: []int{1}, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Direct: true},
		{Name: "three-database", Entries: []int{1}, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Database: true, Direct: true},
		{Name: "two-operators", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a", "a"}, Window: 1, Direct: true},
		{Name: "two-names", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, Direct: true},
		{Name: "two-names-database", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 2, Direct: true, Database: true},
		{Name: "two-partitions", Entries: []int{2, 1}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 2, Direct: true},
		{Name: "by-partition", Entries: []int{2, 1}, Consumers: []string{"a", "b"}, Window: 1, ByPartition: true, Direct: true},
		{Name: "by-partition-retire", Entries: []int{1, 1}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, ByPartition: true, Direct: true},
		{Name: "by-partition-database", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, ByPartition: true, Database: true, Direct: true},

		{Name: "release", Entries: []int{1}, Consumers: []string{"a", "a"}, Window: 1, Free: true, Lost: 1, Late: 1},
		{Name: "release-database", Entries: []int{1}, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Free: true, Database: true, Direct: true},

		{Name: "skip", Entries: []int{1}, Consumers: []string{"a"}, Skippers: []string{"a"}, Window: 1, Direct: true, Lost: 1},
		{Name: "skip-database", Entries: []int{2}, Consumers: []string{"a"}, Skippers: []string{"a"}, Window: 1, Database: true, Direct: true, Lost: 1},
		{Name: "skip-retire", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Skippers: []string{"a"}, Window: 1, Database: true, Direct: true},

		{Name: "end", Entries: []int{1}, Queued: true, Consumers: []string{"a"}, Enders: 1, Sweepers: 1, Window: 1, Direct: true},
		{Name: "end-lost", Entries: []int{1}, Queued: true, Consumers: []string{"a"}, Enders: 1, Window: 1, Direct: true, Lost: 1, Late: 1},
		{Name: "end-partitions", Entries: []int{1, 1}, Queued: true, Consumers: []string{"a"}, Enders: 1, Window: 1, Direct: true},
		{Name: "end-retire", Entries: []int{1}, Queued: true, Consumers: []string{"a"}, Operators: []string{"a"}, Enders: 1, Window: 1, Direct: true},
		{Name: "end-sweep", Entries: []int{1}, Consumers: []string{"a", "b"}, Enders: 1, Sweepers: 1, Window: 1, Direct: true},
		{Name: "sweep", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Sweepers: 1, Window: 1, Direct: true, Lost: 1},
		{Name: "sweep-dead", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Sweepers: 1, Window: 1, Direct: true, DeadLetters: true, Fails: 1, Database: true},
		{Name: "appended", Entries: []int{2}, Queued: true, Consumers: []string{"a", "b"}, Window: 1, Direct: true},
		{Name: "appended-retire", Entries: []int{2}, Queued: true, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 2, Direct: true},

		{Name: "restored", Entries: []int{2}, Consumers: []string{"a", "b"}, Window: 1, Restored: true, Database: true, Direct: true, Recover: 20},
		{Name: "restored-late", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Restored: true, Database: true, Direct: true, Lost: 1, Late: 1},
		{Name: "restored-dead", Entries: []int{2}, Consumers: []string{"a"}, Window: 1, Restored: true, Database: true, Direct: true, DeadLetters: true, Fails: 1},
		{Name: "restored-retire", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Restored: true, Database: true, Direct: true},
		{Name: "restored-dropped", Entries: []int{1, 1}, Consumers: []string{"a"}, Window: 1, Ranges: 1, Restored: true, Database: true, Direct: true},
		{Name: "ahead", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Ahead: 1, Database: true, Direct: true},

		{Name: "forgotten", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Ages: 1, Direct: true},
		{Name: "forgotten-lost", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Ages: 1, Lost: 1, Direct: true},
		{Name: "forgotten-late", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Ages: 1, Late: 1, Direct: true},
		{Name: "forgotten-database", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Ages: 1, Database: true, Direct: true},

		{Name: "group", Entries: []int{2}, OfGroup: true, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Direct: true},
		{Name: "group-queued", Entries: []int{1}, OfGroup: true, Queued: true, Consumers: []string{"a", "b"}, Direct: true},
		{Name: "group-longer", Entries: []int{2}, OfGroup: true, Again: true, Consumers: []string{"a"}, Direct: true},
		{Name: "group-again", Entries: []int{1}, OfGroup: true, Again: true, Consumers: []string{"a"}, Operators: []string{"a"}, Lost: 1, Direct: true},
		{Name: "group-database", Entries: []int{1}, OfGroup: true, Again: true, Consumers: []string{"a"}, Operators: []string{"a"}, Database: true, Direct: true},

		{Name: "two-sweeps", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Sweepers: 2, Window: 1, Direct: true},
		{Name: "two-names-dead", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, Direct: true, Database: true, DeadLetters: true, Fails: 1},
		{Name: "three-names", Entries: []int{1}, Consumers: []string{"a", "b", "c"}, Operators: []string{"a"}, Window: 1, Direct: true},
	}
}

// Long returns larger scenarios, which need about 20 million states each.
func Long() []Scenario {
	return []Scenario{
		{Name: "two-names-lost", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, Direct: true, Lost: 1},
		{Name: "two-names-late", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, Direct: true, Late: 1},
		{Name: "two-names-database-lost", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 2, Direct: true, Database: true, Lost: 1},
		{Name: "three-lost", Entries: []int{1}, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Direct: true, Lost: 1},
		{Name: "end-two-names", Entries: []int{1}, Queued: true, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Enders: 1, Sweepers: 1, Window: 1, Direct: true},
	}
}

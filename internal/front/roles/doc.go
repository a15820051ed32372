// Package roles decides which requests the callers of a server may send. A caller is in the context of its
// request; one table has the roles that each route needs, and [Allow] compares them.
package roles

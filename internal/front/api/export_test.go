package api

// Routes returns the routes, as "METHOD /path".
func Routes() []string {
	var list []string
	for _, rt := range routes() {
		list = append(list, rt.method+" "+rt.path)
	}
	return list
}

// Internals used by the fuzz tests.
var (
	PreferredWait = preferredWait
	ReadHeaders   = readHeaders
)

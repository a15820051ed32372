package api

// Routes lists what is served, as "METHOD /path".
func Routes() []string {
	var list []string
	for _, rt := range routes() {
		list = append(list, rt.method+" "+rt.path)
	}
	return list
}

// What the fuzz tests reach into.
var (
	PreferredWait = preferredWait
	ReadHeaders   = readHeaders
)

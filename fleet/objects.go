package fleet

// NamespaceName names a part of the object store: the key under `objects.namespaces`.
type NamespaceName string

// Objects is the object API of the fleet.
type Objects struct {
	Namespaces map[NamespaceName]ObjectNamespace `json:"namespaces,omitempty"`
	Storage    ObjectStorage                     `json:"storage"`
}

// ObjectNamespace is one part of the object store.
type ObjectNamespace struct {
	// Item is the item of the vault whose field token is the bearer of the namespace.
	Item     string         `json:"item"`
	Prefixes []ObjectPrefix `json:"prefixes"`
	// Release is true for a namespace whose objects are created once and read by everybody.
	Release bool `json:"release,omitempty"`
}

// ObjectPrefix says what a bearer may do with the keys that begin in one way.
type ObjectPrefix struct {
	Prefix string `json:"prefix"`
	// Actions are of get, put, delete, list and stat.
	Actions []string `json:"actions"`
}

// ObjectStorage is where the bytes are.
type ObjectStorage struct {
	// Driver is "file" or "jetstream".
	Driver   string `json:"driver"`
	Path     string `json:"path,omitempty"`
	Bucket   string `json:"bucket,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
}

// Vault is where bearers of the object API are read.
type Vault struct {
	// Driver is "age", "gpg", "exec" or "http".
	Driver    string       `json:"driver"`
	Path      string       `json:"path,omitempty"`
	URL       string       `json:"url,omitempty"`
	Command   string       `json:"command,omitempty"`
	Consumer  ConsumerName `json:"consumer,omitempty"`
	TokenFile string       `json:"token_file,omitempty"`
	Repair    *VaultRepair `json:"repair,omitempty"`
}

// VaultRepair is what frees a lock that keeps the vault from answering.
type VaultRepair struct {
	Command string `json:"command"`
}

// HostObjects says that a host serves the object API.
type HostObjects struct {
	Bind string `json:"bind"`
}

// HostView is a listener of one host for people or for measurement: its console, or its metrics.
type HostView struct {
	Bind string `json:"bind"`
	// Expose permits a bind that other machines can reach.
	Expose bool `json:"expose,omitempty"`
}

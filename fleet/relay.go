package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// SlotName names a slot of a relay switch: the key under `slots`.
type SlotName string

// Relay is the relay switch of one host.
type Relay struct {
	// Socket is where engines connect, written unix:///absolute/path.
	Socket string                 `json:"socket"`
	Policy RelayPolicy            `json:"policy"`
	Slots  map[SlotName]RelaySlot `json:"slots,omitempty"`
	Limits *RelayLimits           `json:"limits,omitempty"`
}

// RelayPolicy is what hosts behind the switch may do.
type RelayPolicy struct {
	// Network is "deny" or "allow".
	Network string `json:"network"`
}

// RelaySlot is a place where one master is attached. [ParseAttach] reads Attach.
type RelaySlot struct {
	Attach   string `json:"attach"`
	Expected bool   `json:"expected"`
}

// RelayLimits bound what one side of a link may send.
type RelayLimits struct {
	MaxFrame         int `json:"max_frame"`
	MaxChunk         int `json:"max_chunk"`
	MaxReorderBuffer int `json:"max_reorder_buffer"`
	InitialCredit    int `json:"initial_credit"`
}

// Attachment is a parsed [RelaySlot.Attach]: a socket here, or on another host.
type Attachment struct {
	Host HostName // empty for this host
	Path string
}

// ParseAttach reads unix:///absolute/path or host://HOST/absolute/path.
func ParseAttach(raw string) (Attachment, error) {
	var a Attachment
	if rest, ok := strings.CutPrefix(raw, "host://"); ok {
		host, p, _ := strings.Cut(rest, "/")
		a = Attachment{Host: HostName(host), Path: "/" + p}
	} else if p, ok := strings.CutPrefix(raw, "unix://"); ok {
		a = Attachment{Path: p}
	}
	err := socketPath(a.Path)
	if err == nil && a.Host == "" && strings.HasPrefix(raw, "host:") {
		err = errors.New("does not name a host")
	}
	if err != nil {
		return Attachment{}, fmt.Errorf("slot socket %s %w (write unix:///run/app.sock or host://HOST/run/app.sock)", raw, err)
	}
	return a, nil
}

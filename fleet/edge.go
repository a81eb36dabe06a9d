package fleet

// EdgeName is a name of the domain name system behind which forwarders stand: the key under `edges`.
type EdgeName string

// Edge is one service of the origin behind replaceable forwarders.
type Edge struct {
	// Name is the name that agents resolve, if it is not the edge's own.
	Name string `json:"name,omitempty"`
	Port int    `json:"port"`
	// Service is "tls" or "ssh".
	Service string `json:"service"`
	// Pin is the one address that agents use; empty for a choice by measurement.
	Pin       string        `json:"pin,omitempty"`
	Selection EdgeSelection `json:"selection"`
}

// EdgeSelection is how an agent chooses between the addresses of an edge. Times are written as in the registry.
type EdgeSelection struct {
	Enabled        bool    `json:"enabled"`
	Timeout        string  `json:"timeout"`
	Samples        int     `json:"samples"`
	Interval       string  `json:"interval"`
	MaxAge         string  `json:"max_age"`
	Rise           int     `json:"rise"`
	Tolerance      string  `json:"tolerance"`
	ToleranceRatio float64 `json:"tolerance_ratio"`
	// Dial is "ordered" or "staggered".
	Dial string `json:"dial"`
}

// Gateway is the origin's front.
type Gateway struct {
	Listen string `json:"listen"`
	// ProxyProtocol is "off", "optional" or "required".
	ProxyProtocol  string   `json:"proxy_protocol"`
	TrustedProxies []string `json:"trusted_proxies,omitempty"`
	HeaderTimeout  string   `json:"header_timeout"`
	MaxHeader      int      `json:"max_header"`
}

// EdgeHost says that a host runs a forwarder. The firewall of the origin and the monitor read it, agents never do.
type EdgeHost struct {
	Name      EdgeName `json:"name"`
	Addresses []string `json:"addresses"`
	Origin    string   `json:"origin"`
	// SendProxy is "v2", "v1" or "off".
	SendProxy string `json:"send_proxy"`
}

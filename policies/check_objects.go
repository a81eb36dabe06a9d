package policies

import (
	"stado.internal/stado/fleet"
)

// views judges the listeners of a host beside those of its resolver: relay switch, object API, console and metrics.
func (k *checker) views(host fleet.HostName, h fleet.Host, stand []listener) {
	if h.Relay != nil {
		stand = k.listener(stand, listener{raw: h.Relay.Socket, path: hostPath(host, "relay", "socket"), name: "the relay switch"}, false, "")
	}
	if h.Objects != nil {
		if k.registry.Objects == nil {
			k.refuse(RuleNoObjects, hostPath(host, "objects"), sayNoObjects(host), hintNoObjects)
		}
		stand = k.listener(stand, listener{raw: h.Objects.Bind, path: hostPath(host, "objects", "bind"), name: "the object API"}, false, hintExposedObjects)
	}
	for _, v := range []struct {
		label string
		view  *fleet.HostView
	}{{"console", h.Console}, {"metrics", h.Metrics}} {
		if v.view == nil {
			continue
		}
		p := hostPath(host, v.label, "bind")
		stand = k.listener(stand, listener{raw: v.view.Bind, path: p, name: v.label}, v.view.Expose, hintExposedView)
		if bind, err := fleet.ParseBind(v.view.Bind); err == nil && v.view.Expose && !bind.Loopback() && h.CertificateSHA256 == "" {
			k.refuse(RuleNoCertificate, p, sayNoCertificate(v.label, v.view.Bind), hintNoCertificate)
		}
	}
}

package policies

import (
	"maps"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
)

// relay judges the relay switch of a host, but for its socket, which is one of the host's listeners.
func (k *checker) relay(host fleet.HostName, r *fleet.Relay) {
	own := strings.TrimPrefix(r.Socket, "unix://")
	taken := map[fleet.Attachment]fleet.SlotName{}
	for _, slot := range slices.Sorted(maps.Keys(r.Slots)) {
		p := hostPath(host, "relay", "slots", string(slot), "attach")
		a, err := fleet.ParseAttach(r.Slots[slot].Attach)
		if err != nil {
			k.refuse(RuleBindAddress, p, err.Error(), "")
			continue
		}
		if a.Host == host {
			a.Host = "" // the same socket, whichever way it is written
		}
		if first, ok := taken[a]; ok {
			k.refuse(RuleSlotTwice, p, sayOneSocket(slot, first, seeAlso(k.at(hostPath(host, "relay", "slots", string(first), "attach")))), hintOneSocket)
			continue
		}
		taken[a] = slot
		k.attachment(p, slot, a, own)
	}
	if l := r.Limits; l != nil && l.MaxChunk >= l.MaxFrame {
		k.refuse(RuleRelayLimits, hostPath(host, "relay", "limits", "max_chunk"), sayChunk(l.MaxChunk, l.MaxFrame), hintChunk)
	}
}

func (k *checker) attachment(fieldPath string, slot fleet.SlotName, a fleet.Attachment, own string) {
	if a.Host == "" {
		if a.Path == own {
			k.refuse(RuleSlotLoop, fieldPath, saySlotLoop(slot), hintSlotLoop)
		}
		return
	}
	h, declared := k.registry.Hosts[a.Host]
	switch {
	case !declared:
		k.refuse(RuleUnknownHost, fieldPath, sayUnknownHost(a.Host), hintUnknownHost(a.Host))
	case h.SSH == "":
		k.refuse(RuleSlotSSH, fieldPath, saySlotSSH(slot, a.Host), hintSlotSSH(a.Host))
	}
}

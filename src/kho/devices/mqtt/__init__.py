"""Boards over MQTT: at a broker that is there already, or at one of Kho's own."""

"""Boards over MQTT: at an external broker, or at the embedded one."""
